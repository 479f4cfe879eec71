"""Writes the bundled page as arrays of bytes in C, with their hashes as a content security policy names
them. Usage: embed.py PAGE.js PAGE.css OUT.c"""
import base64
import hashlib
import sys


def array(name, data):
    """The definitions of NAME and NAME_bytes, with 32 bytes a line."""
    rows = (",".join(str(byte - 256 if byte > 127 else byte) for byte in data[at:at + 32])
            for at in range(0, len(data), 32))
    return f"const char {name}[] = {{\n" + ",\n".join(rows) + f"}};\nconst size_t {name}_bytes = sizeof {name};\n"


def main(script, style, out):
    with open(out, "w", encoding="ascii") as file:
        file.write('#include "show/html_assets.h"\n')
        for name, source in (("html_script", script), ("html_style", style)):
            with open(source, "rb") as data:
                content = data.read()
            if any(part in content for part in (b"\r", b"\0", b"</script", b"</style")):
                sys.exit(f"{source}: a browser would not read these bytes as they stand")
            digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
            file.write(array(name, content))
            file.write(f'const char {name}_hash[] = "sha256-{digest}";\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
