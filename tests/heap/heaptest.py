"""What the tests of `mallow heap` share: victims that wait, and the command."""
import json
import os
import select
import subprocess
import time

from mallowtest import MALLOW, Test, program



def tool(name):
    return program("heap/" + name)


class HeapTest(Test):
    def start(self, *command, **kwargs):
        """A victim; its line that begins with "ready" is in .line."""
        p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder, **kwargs)
        self.addCleanup(self.stop, p)
        text = b""
        while b"\n" not in text:
            self.assertTrue(select.select([p.stdout], [], [], 300)[0], "the victim does not get ready")
            more = os.read(p.stdout.fileno(), 4096)
            self.assertTrue(more, f"the victim ended: {p.poll()}")
            text += more
        p.line = text.decode().splitlines()[0]
        self.assertTrue(p.line.startswith("ready"), p.line)
        self.settle(p.pid)
        return p

    @staticmethod
    def settle(pid):
        """Waits until the program, which has said "ready", waits for its input: until then it cleans up its stack."""
        state = None
        while state not in ("S", "Z", "X"):
            with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                state = f.read().rsplit(")", 1)[1].split()[0]
            time.sleep(0.001)

    @staticmethod
    def stop(p):
        if p.poll() is None:
            p.kill()
        p.wait()
        p.stdin.close()
        p.stdout.close()

    @staticmethod
    def anonymous(pid):
        """Memory of the mappings in which arenas lie."""
        total, counts = 0, False
        with open(f"/proc/{pid}/smaps", encoding="ascii") as f:
            for line in f:
                words = line.split()
                if "-" in words[0]:
                    counts = len(words) == 5 or words[5] == "[heap]"
                elif words[0] == "Anonymous:" and counts:
                    total += int(words[1]) * 1024
        return total

    def heap(self, *args, status=0):
        p = subprocess.run([MALLOW, "heap", *map(str, args)], capture_output=True, text=True, timeout=600, check=False)
        if status is not None:
            self.assertEqual(p.returncode, status, p.stderr + p.stdout[-2000:])
        return p

    def heap_json(self, *args, status=0):
        document = json.loads(self.heap("--json", *args, status=status).stdout)
        self.assertEqual(document["schema"], 1)
        return document

    def blocks(self, target):
        """All blocks that the walk finds, and its other lines."""
        p = subprocess.run([tool("list_blocks"), str(target)], capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(p.returncode, 0, p.stderr)
        found, rest = {}, {}
        for line in p.stdout.splitlines():
            words = line.split(None, 1)
            if words[0].startswith("0x"):
                found[int(words[0], 16)] = int(words[1])
            else:
                rest[words[0]] = words[1]
        return found, rest

    def truth(self, path):
        known, mallinfo = {}, None
        with open(path, encoding="ascii") as f:
            for line in f:
                words = line.split()
                if words[0] == "mallinfo":
                    mallinfo = list(map(int, words[1:]))
                else:
                    known[int(words[0], 16)] = int(words[1])
        return known, mallinfo
