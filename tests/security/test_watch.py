"""`mallow watch`, run by root, where processes of another user invent what they share, or change it
meanwhile."""
import glob
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading

from mallowtest import MALLOW, WATCH_LIBRARY, program, victim
import attack
from attack import OTHER, PATIENCE

SHARED = "/dev/shm"
VICTIM = victim("control")  # allocates at each byte of its input
MOST_KB = 200 << 10  # of memory, that no segment may cost


class Watching(attack.Attack):
    """The segments are in /dev/shm, where the library makes them."""
    where, symlinks = SHARED, "0"

    def setUp(self):
        super().setUp()
        self.addCleanup(self.sweep, set(os.listdir(SHARED)))

    @staticmethod
    def sweep(before):
        for name in set(os.listdir(SHARED)) - before:
            if name.startswith("mallow-"):
                path = os.path.join(SHARED, name)
                subprocess.run(["rm", "-r", path], check=True)

    def liar(self, mode, *more, path=SHARED + "/mallow-watch-%d-1"):
        p = self.other("false_segment", path, mode, *more)
        return p, path.replace("%d", str(p.pid))

    @staticmethod
    def most_kb(p):
        """Of memory that the process had, which has ended or does so now."""
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        return used.ru_maxrss

    def watch(self, *args, reports=3):
        """So many reports, or all until it ends by itself; (objects, what it said). Never dies of a signal."""
        with tempfile.TemporaryFile() as said:
            p = subprocess.Popen([MALLOW, "watch", "--json", "--every", "100ms", "--old", "1ns", "--no-debuginfod", *args],
                                 stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL)
            late = threading.Timer(PATIENCE, p.kill)
            late.start()
            lines = []
            while len(lines) < reports:
                line = p.stdout.readline()
                if not line:
                    break
                lines.append(line)
            if len(lines) == reports:
                os.kill(p.pid, signal.SIGTERM)  # it was not waited for yet
            lines += p.stdout.readlines()
            self.spent_kb = self.most_kb(p)
            late.cancel()
            p.stdout.close()
            said.seek(0)
            err = said.read().decode("utf-8")
        self.assertIn(p.returncode, (0, 1), (args, p.returncode, err))
        return [json.loads(line) for line in lines if line.strip()], err

    def left(self, what, *more):
        done = self.mallow("watch", "--left", what, *more)
        return done.returncode, done.stdout, done.stderr

    @staticmethod
    def dead_pid():
        p = subprocess.Popen(["/bin/true"])
        p.wait()
        return p.pid

    def dead(self, mode, *more, **where):
        """A segment whose process is gone."""
        p, path = self.liar(mode, *more, **where)
        p.kill()
        p.wait()
        return p.pid, path

    def roots(self):
        """A process of root's that is watched by the library, and its segment."""
        p = subprocess.Popen([VICTIM, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env={"PATH": "/bin:/usr/bin", "LD_PRELOAD": WATCH_LIBRARY, "MALLOW_WATCH_PERIOD": "1"})

        def end():
            p.kill()
            p.communicate()
        self.addCleanup(end)
        p.stdin.write(b"x")
        p.stdin.flush()
        self.assertEqual(p.stdout.read(1), b"x")
        (path,) = glob.glob(f"{SHARED}/mallow-watch-{p.pid}-*")
        return p, path

    # ---- of a process that lives ----

    def test_it_is_read(self):
        """The liar is watched as what it is: without this, the others show nothing."""
        p, _ = self.liar("hold")
        found, _ = self.watch("-p", str(p.pid))
        self.assertEqual({r["pid"] for r in found}, {p.pid})
        self.assertEqual(found[0]["exe"], "/bin/invented")

    def test_it_loses_its_memory(self):
        for seed in range(3):
            p, _ = self.liar("cut", f"seed={seed}")
            self.watch("-p", str(p.pid), reports=20)

    def test_it_is_rewritten(self):
        os.mkfifo(self.nb + "/fifo")
        for seed in range(3):
            p, _ = self.liar("rewrite", f"seed={seed}")
            self.watch("-p", str(p.pid), reports=5)

    def test_it_claims_to_be_of_a_process_of_roots(self):
        """Its id, its time of start, or to be its child: none of it comes into the reports about root's."""
        victim, path = self.roots()
        clock = path.rsplit("-", 1)[1]
        for claim in ([f"pid={victim.pid}", f"start={clock}"], [f"ppid={victim.pid}"], [f"pid={victim.pid}"]):
            self.liar("hold", *claim)
            self.liar("hold", *claim, path=f"{SHARED}/mallow-watch-{victim.pid}-7%d")
        found, _ = self.watch("-p", str(victim.pid))
        self.assertEqual({r["pid"] for r in found}, {victim.pid})
        self.assertNotIn("/bin/invented", {r["exe"] for r in found})

    NAMED = SHARED + "/mallow-watch-%p-%s"  # as the segment says, so that no name betrays it

    def test_it_claims_a_parent(self):
        """Everything else is true. Its parent is the one that /proc says, and it is in no report about root's."""
        victim, _ = self.roots()
        p, _ = self.liar("hold", f"ppid={victim.pid}", path=self.NAMED)
        found, _ = self.watch("-p", str(victim.pid))
        self.assertEqual({r["pid"] for r in found}, {victim.pid})
        found, _ = self.watch("-p", str(p.pid))
        self.assertEqual({(r["pid"], r["ppid"], r["exe"]) for r in found}, {(p.pid, os.getpid(), "/bin/invented")})
        p.kill()
        p.wait()
        found, _ = self.watch("-p", str(p.pid))  # /proc has no parent of it any more
        self.assertEqual({(r["pid"], r.get("ppid"), r["claimed_ppid"]) for r in found}, {(p.pid, None, victim.pid)})

    def everyone(self):
        """What `watch -a` says of the liars until it has reported twice on a process of root's that came last."""
        last, _ = self.roots()
        with tempfile.TemporaryFile("w+") as said:
            p = subprocess.Popen([MALLOW, "watch", "-a", "--how", "preloaded", "--json", "--every", "100ms", "--old", "1ns",
                                  "--no-debuginfod"], stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL)
            late = threading.Timer(PATIENCE, p.kill)
            late.start()
            found = []
            for line in p.stdout:
                found.append(json.loads(line))
                if found[-1]["pid"] == last.pid and sum(r["pid"] == last.pid for r in found) == 2:
                    p.send_signal(signal.SIGTERM)
            p.wait()
            late.cancel()
            p.stdout.close()
            said.seek(0)
            self.assertEqual(p.returncode, 0, said.read())
        return [r for r in found if r["exe"] == "/bin/invented"]

    def test_it_claims_another_namespace(self):
        """In which any number may be a process: of one that the kernel does not show there, nothing is said."""
        victim, _ = self.roots()
        known, _ = self.liar("hold", path=self.NAMED)
        for namespace in (1, 4026531836 + 77):
            self.liar("hold", f"pid={victim.pid}", f"namespace={namespace}", path=self.NAMED)
            self.liar("hold", f"namespace={namespace}", path=self.NAMED)
        found = self.everyone()
        self.assertEqual({r["pid"] for r in found}, {known.pid})

    def test_it_is_in_another_namespace(self):
        """It is believed what it is called there; it cannot call itself otherwise."""
        victim, _ = self.roots()
        ways = ["unshare", "--user", "--pid", "--fork", "--kill-child", "sh", "-c"]
        inner = 'exec "$0" "$1" hold namespace=$(stat -Lc %i /proc/self/ns/pid) ppid=77 "$2"'
        for claim in ("pid=1", f"pid={victim.pid}"):
            outer = subprocess.Popen([*ways, inner, f"{self.bin}/false_segment", self.NAMED, claim], user=OTHER, group=OTHER,
                                     extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.addCleanup(outer.stdout.close)
            self.addCleanup(outer.wait)
            self.addCleanup(outer.kill)
            if not outer.stdout.readline():
                attack.loudly("the other user may make no pid namespace")
        self.assertEqual({(r["pid"], r["ppid"]) for r in self.everyone()}, {(1, 0)})

    def test_it_is_a_file_of_roots_by_a_hard_link(self):
        """Mapped by the liar through its other name: settings are written to no file of two names."""
        p, path = self.liar("hold")
        os.link(path, self.nb + "/second")
        with self.untouched(path):
            self.watch("-p", str(p.pid), "--period", "4K")

    def test_its_directory_becomes_a_link_to_roots(self):
        """What is removed at the end is the file that was mapped, or nothing."""
        for name in ("mallow-watch-session-1-x", "mallow-watch-x"):
            for base in (self.nb, SHARED):
                directory = f"{base}/{name}"
                os.mkdir(directory)
                os.chown(directory, OTHER, OTHER)
                p, path = self.liar("hold", path=f"{directory}/%d-1")
                secret = self.secret(os.path.basename(path))
                watch = subprocess.Popen([MALLOW, "watch", "--json", "--every", "100ms", "-p", str(p.pid)],
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                watch.stdout.readline()
                away = directory.replace("mallow-watch", "mallow-away")  # of the same file system
                with self.untouched(secret):
                    os.rename(directory, away)
                    os.symlink(self.root, directory)
                    os.lchown(directory, OTHER, OTHER)
                    p.kill()
                    p.wait()
                    watch.communicate(timeout=PATIENCE)
                    self.assertIn(watch.returncode, (0, 1))
                os.unlink(directory)
                subprocess.run(["rm", "-r", away], check=True)
                os.unlink(secret)

    def test_its_tables_are_too_large(self):
        """A file of holes, as large as one may be and larger."""
        for megabytes in (16, 256, 1024, 1 << 20):
            p, _ = self.liar("tables", f"bytes={megabytes << 20}")
            self.watch("-p", str(p.pid))
            self.assertLess(self.spent_kb, MOST_KB, f"{megabytes} MB")

    # What the library can make (src/format/watch.h).
    MOST = {"modules": 512, "sites": ((1 << 30) // 5461 & ~7) + 1, "samples": (1 << 30) // 683 & ~7,
            "frees": (1 << 30) // 4096, "errors": 32}
    MOST_BYTES = 256 << 20

    def test_one_table_is_too_large(self):
        """Or the file; and nothing else is wrong."""
        for table, most in self.MOST.items():
            for entries in (most, most + 1):
                p, _ = self.liar("laid", f"{table}={entries}", f"bytes={self.MOST_BYTES}")
                found, said = self.watch("-p", str(p.pid), reports=1)
                self.assertEqual(("it claims a larger table than there can be" in said, found == []), (entries > most,) * 2,
                                 (table, said))
        for more in (0, 8):
            p, _ = self.liar("laid", f"bytes={self.MOST_BYTES + more}")
            found, said = self.watch("-p", str(p.pid), reports=1)
            self.assertEqual(("too large to be one" in said, found == []), (more > 0,) * 2, said)

    def test_all_that_there_can_be(self):
        """The largest one, and all of it in use: what one process can make a watch spend, for 256 MB of its own."""
        st = os.statvfs(SHARED)
        if st.f_bavail * st.f_frsize < 2 * self.MOST_BYTES:
            attack.loudly("/dev/shm has no room for the largest segment")
        p, _ = self.liar("full", f"bytes={self.MOST_BYTES}", *(f"{table}={n}" for table, n in self.MOST.items()))
        with subprocess.Popen([MALLOW, "watch", "-p", str(p.pid), "--every", "100ms", "--old", "1ns", "--no-debuginfod"],
                              stdout=subprocess.PIPE) as watch:
            late = threading.Timer(PATIENCE, watch.kill)
            late.start()
            self.assertNotEqual(watch.stdout.readline(), b"")
            os.kill(watch.pid, signal.SIGTERM)
            watch.stdout.read()
            spent = self.most_kb(watch)
            late.cancel()
        self.assertEqual(watch.returncode, 0)
        self.assertLess(spent, 3 * self.MOST_BYTES >> 10)

    def test_many_of_the_largest(self):
        """Of other users' processes no more is kept than 1 GiB for each user: who finds no room in it is named, the
        others are reported. As many nodes of stacks as there can be cost 300 MB and more, for 12 MB of their own."""
        large = [self.liar("full", f"bytes={16 << 20}", "sites=18800", "samples=18800", path=self.NAMED)[0].pid for _ in range(5)]
        small, _ = self.liar("hold", path=self.NAMED)
        roots, _ = self.roots()
        with tempfile.TemporaryFile("w+") as said:
            watch = subprocess.Popen([MALLOW, "watch", "-a", "--how", "preloaded", "--every", "100ms", "--old", "1ns",
                                      "--no-debuginfod"], stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL, text=True)
            late = threading.Timer(PATIENCE, watch.kill)
            late.start()
            reported, asked, ends = set(), set(large) | {small.pid, roots.pid}, False
            for line in watch.stdout:  # at the end it looks at all of them in any case
                reported |= {pid for pid in asked if f"[{pid}]" in line}
                if not ends and reported >= {small.pid, roots.pid}:
                    ends = True
                    watch.terminate()
            spent = self.most_kb(watch)
            late.cancel()
            watch.stdout.close()
            said.seek(0)
            lines = said.read().splitlines()
        self.assertEqual(watch.returncode, 0, lines)
        refused = [pid for pid in asked for line in lines if f"process {pid} is not watched: " in line]
        self.assertLess(spent, 1200 << 10)
        self.assertEqual(sorted(reported), sorted(asked - set(refused)))
        self.assertEqual(len(refused), 2, lines)
        self.assertLess(set(refused), set(large))

    def test_known_list_behind_a_link(self):
        """To a list of root's, or to a directory of root's: nothing is marked there."""
        victim, _ = self.roots()
        secret = self.secret(text="leak:nothing_of_the_kind\n")
        for to, name in ((secret, "file"), (self.root, "dir")):
            os.symlink(to, f"{self.nb}/{name}")
            os.lchown(f"{self.nb}/{name}", OTHER, OTHER)
        for name in ("file", "dir/secret", "dir/new"):
            with self.untouched(secret):
                watch = subprocess.Popen([MALLOW, "watch", "--json", "--every", "100ms", "--old", "1ns", "--no-debuginfod", "--known",
                                          f"{self.nb}/{name}", "-p", str(victim.pid)],
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
                self.assertIn(f'"pid":{victim.pid}', watch.stdout.readline().replace(" ", ""))
                for number in (signal.SIGUSR1, signal.SIGTERM):  # taken in this order, if at once
                    watch.send_signal(number)
                _, said = watch.communicate(timeout=PATIENCE)
            self.assertIn("a symbolic link on the way belongs to another user", said)

    def test_its_name_is_a_path_through_proc(self):
        """What it maps is called like a file of root's where root looks: another inode, another directory."""
        unshare = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"]
        script = f'exec 3<{self.bin}/false_segment && mount -t tmpfs none {SHARED} && exec /proc/self/fd/3 "$1" hold'
        clock = 5
        p = subprocess.Popen([*unshare, "sh", "-c", script, "sh", SHARED + "/mallow-watch-%d-5"], user=OTHER, group=OTHER,
                             extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        if not p.stdout.readline():
            attack.loudly("the other user may make no mount namespace")
        same = f"{SHARED}/mallow-watch-{p.pid}-{clock}"
        with open(same, "w", encoding="ascii") as f:
            f.write("of root's\n")
        with self.untouched(same):
            watch = subprocess.Popen([MALLOW, "watch", "--json", "--every", "100ms", "-p", str(p.pid)],
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            watch.stdout.readline()
            p.kill()
            watch.communicate(timeout=PATIENCE)
            self.assertIn(watch.returncode, (0, 1))

    def test_names_of_generated_code(self):
        """/tmp/perf-PID.map of another user names nothing of root's; one of root's does."""
        p = subprocess.Popen([program("security/generated")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env={"LD_PRELOAD": WATCH_LIBRARY, "MALLOW_WATCH_PERIOD": "1"})
        self.addCleanup(lambda: p.communicate(timeout=PATIENCE))
        p.stdout.readline()
        p.stdin.write(b"\n")
        p.stdin.flush()
        p.stdout.readline()
        path = f"/tmp/perf-{p.pid}.map"
        self.addCleanup(lambda: os.path.lexists(path) and os.unlink(path))
        for owner, name in ((OTHER, "planted"), (0, "compiled_by_root")):
            with open(path, "w", encoding="ascii") as f:
                f.write(f"20000000 1000 {name}\n")
            os.chown(path, owner, owner)
            found, _ = self.watch("-p", str(p.pid))
            self.assertEqual(name in json.dumps(found), owner == 0, name)
        os.unlink(path)
        os.symlink(self.secret(text="20000000 1000 secret_of_root\n"), path)
        os.lchown(path, OTHER, OTHER)
        self.assertNotIn("secret_of_root", json.dumps(self.watch("-p", str(p.pid))[0]))
        os.unlink(path)
        os.mkfifo(path, 0o666)
        os.chown(path, OTHER, OTHER)
        self.assertNotEqual(self.watch("-p", str(p.pid))[0], [])

    # ---- of processes that are gone ----

    def test_text_for_a_terminal(self):
        _, path = self.dead("text")
        status, out, _ = self.left("list")
        self.assertEqual(status, 0)
        self.assertIn("\\x1b", out)
        self.assertNotRegex(out, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ufffd]")
        self.assertEqual(len([line for line in out.splitlines() if "line" in line]), 1)
        status, out, _ = self.left("list", "--json")
        self.assertIn(path, [json.loads(line)["path"] for line in out.splitlines()])

    def test_dead_ones_cost_little(self):
        for megabytes in (256, 1 << 20):
            self.dead("tables", f"bytes={megabytes << 20}")
        with subprocess.Popen([MALLOW, "watch", "--left", "list"], stdout=subprocess.DEVNULL) as p:
            self.assertLess(self.most_kb(p), MOST_KB)
        self.assertEqual(p.returncode, 0)

    def test_a_dead_one_is_a_link_to_a_file_of_roots(self):
        secret, link = self.secret(), f"{SHARED}/mallow-watch-{self.dead_pid()}-1"
        os.symlink(secret, link)
        os.lchown(link, OTHER, OTHER)
        with self.untouched(secret):
            for what in ("list", "clear"):
                self.assertEqual(self.left(what)[0], 0)
            self.mallow("watch", "-p", link.split("-")[2])

    def test_a_dead_one_is_a_hard_link_to_a_file_of_roots(self):
        """The other name may go: the file stays as it is."""
        secret, link = self.secret(), f"{SHARED}/mallow-watch-{self.dead_pid()}-1"
        os.link(secret, link)
        with self.untouched(secret):
            for what in ("list", "clear"):
                self.assertEqual(self.left(what)[0], 0)
            self.mallow("watch", "-p", link.split("-")[2])

    def test_a_dead_one_is_no_file(self):
        """FIFO, socket, device: nothing waits for it, nothing opens it."""
        pid = self.dead_pid()
        os.mkfifo(f"{SHARED}/mallow-watch-{pid}-1", 0o666)
        os.mkfifo(f"{SHARED}/mallow-watch-session-{pid}-x", 0o666)
        os.mknod(f"{SHARED}/mallow-watch-{pid}-2", 0o020666, os.makedev(1, 5))
        os.mknod(f"{SHARED}/mallow-watch-{pid}-3", stat.S_IFSOCK | 0o666)
        os.mknod(f"{SHARED}/mallow-watch-session-{pid}-z", stat.S_IFSOCK | 0o666)
        os.mkdir(f"{SHARED}/mallow-watch-session-{pid}-y")
        os.mkfifo(f"{SHARED}/mallow-watch-session-{pid}-y/{pid}-1")
        for name in glob.glob(f"{SHARED}/mallow-watch-*"):
            os.chown(name, OTHER, OTHER)
        for what in ("list", "clear"):
            self.assertIn(self.left(what)[0], (0, 1))
        self.assertEqual(self.mallow("watch", "-p", str(pid)).returncode, 1)

    def test_session_of_the_dead_is_a_link_to_a_directory_of_roots(self):
        pid = self.dead_pid()
        secret = self.secret(f"{pid}-1")
        link = f"{SHARED}/mallow-watch-session-{pid}-x"
        os.symlink(self.root, link)
        os.lchown(link, OTHER, OTHER)
        with self.untouched(secret):
            self.left("clear")
            self.mallow("watch", "-p", str(pid))

    def test_session_of_the_dead_changes_places(self):
        """A directory of the other user's and one of root's with files of the same names, while root clears."""
        pid = self.dead_pid()
        own, link = (f"{SHARED}/mallow-watch-session-{pid}-{x}" for x in "ab")
        names = [f"{pid}-{i}" for i in range(40)]
        secrets = [self.secret(name) for name in names]
        os.mkdir(own)
        os.symlink(self.root, link)
        os.lchown(link, OTHER, OTHER)
        for path in (own, *(f"{own}/{n}" for n in names)):
            if path != own:
                with open(path, "wb"):
                    pass
            os.chown(path, OTHER, OTHER)
        os.chmod(SHARED, 0o777)  # so that names of root's may change, too
        self.addCleanup(os.chmod, SHARED, 0o1777)
        self.other("exchange", own, link)
        with self.untouched(*secrets):
            for _ in range(20):
                self.left("clear")
                for name in names:
                    with open(f"{self.root}/{name}", "rb"):
                        pass

    def test_its_process_id_is_another_process_now(self):
        """A segment that a dead process left says nothing of the one that has its id."""
        innocent = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(innocent.wait)
        self.addCleanup(innocent.kill)
        path = f"{SHARED}/mallow-watch-{innocent.pid}-1"
        self.dead("hold", f"pid={innocent.pid}", path=path)
        found, said = self.watch("--how", "preloaded", "-p", str(innocent.pid))
        self.assertEqual(found, [])
        self.assertIn("runs without libmallow-watch.so", said)
        self.assertEqual(self.left("clear")[0], 0)
        self.assertFalse(os.path.exists(path))
        self.assertIsNone(innocent.poll())

    def test_a_process_of_another_user_removes_nothing_of_roots(self):
        """The library bounds what the dead have left: what its own user's have."""
        pid = self.dead_pid()
        paths = [f"{SHARED}/mallow-watch-{pid}-{i}" for i in range(40)]
        for path in paths:
            with open(path, "wb") as f:
                f.write(bytes(4096))
        library = shutil.copy(WATCH_LIBRARY, self.bin)
        p = self.other(shutil.copy(program("security/generated"), self.bin),
                       env={"LD_PRELOAD": library, "MALLOW_WATCH_PERIOD": "1"})
        p.stdin.write("\n")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), "done\n")
        self.assertEqual(len(glob.glob(f"{SHARED}/mallow-watch-{p.pid}-*")), 1)
        self.assertEqual([p for p in paths if not os.path.exists(p)], [])


def again(title, where, symlinks, attacks):
    """A class with these attacks alone: elsewhere, or with the other setting."""
    others = {name: None for name in dir(Watching) if name.startswith("test_") and name not in attacks}
    return {title: type(title, (Watching,), {"where": where, "symlinks": symlinks, "__module__": "__main__", **others})}


# Links in directories for all, which the setting is about, and in those that may be on any file system.
SHARED_LINKS = ["test_a_dead_one_is_a_link_to_a_file_of_roots", "test_session_of_the_dead_is_a_link_to_a_directory_of_roots",
                "test_names_of_generated_code"]
LINKS = ["test_its_directory_becomes_a_link_to_roots", "test_known_list_behind_a_link"]
globals().update(again("WatchingSymlinks1", SHARED, "1", SHARED_LINKS + LINKS))
globals().update(again("WatchingDiskSymlinks0", attack.on_disk(), "0", LINKS))
globals().update(again("WatchingDiskSymlinks1", attack.on_disk(), "1", LINKS))
