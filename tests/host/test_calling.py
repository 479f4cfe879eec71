"""How the program calls, and what it has in its hands meanwhile: output and status are those of the program alone
under `record`, `watch`, `watch --guard all` and the library of `probe arenas`, preloaded."""
import os

from mallowtest import Case, MALLOW, main, run, victim

ARENAS = os.path.join(os.path.dirname(os.path.abspath(os.environ["WATCH_LIBRARY"])), "libmallow-arenas.so")
TOOLS = [["record"], ["watch", "--period", "1K"], ["watch", "--guard", "all", "--period", "1K"], ["arenas"]]


class Calling(Case):
    def under(self, tool, argv):
        """The finished run of argv; standard error is not compared, since `watch` reports there."""
        if tool == ["arenas"]:
            return run(argv, env={"LD_PRELOAD": ARENAS, "MALLOW_ARENAS": "/dev/null"})
        where = ["-o", self.file] if tool[0] == "record" else []
        return run([MALLOW, *tool, *where, "--", *argv])

    def as_alone(self, argv, tools, status=0):
        alone = run(argv)
        self.assertEqual(alone.status, status, alone.err)
        for tool in tools:
            with self.subTest(argv=argv, tool=tool):
                r = self.under(tool, argv)
                self.assertEqual((r.out, r.status), (alone.out, status), r.err[-2000:])


class Names(Calling):
    """A program that defines the names of what the library has, too (tests/victims/own_names.c)."""

    def test_each(self):
        for mode in ("none", "sigaction", "limits", "execve", "execvpe", "execv", "execvp"):
            self.as_alone([victim("own_names"), mode], TOOLS)


if __name__ == "__main__":
    main()
