"""Texts that must be as a file has them. `meson test NAME --test-args --write` writes the files anew: read the difference."""
WRITE = False  # see __main__.py


def same(test, file, data):
    """The file has these bytes."""
    if WRITE:
        with open(file, "wb") as f:
            f.write(data)
    with open(file, "rb") as f:
        test.assertEqual(f.read().decode(), data.decode())
