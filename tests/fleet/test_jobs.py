"""The job files for GNU parallel, and those for Slurm on a real cluster: a controller and two nodes on this machine,
started by the test on loopback ports. The merged result has every workload as its shard measured it, and says what one
run of the whole corpus says, within the intervals of both."""
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from mallowtest import LONG, MALLOW, ROOT
from mallowtest.ports import free_ports

OPTIONS = ["--repeat", "2", "--alloc", "glibc"]
TWO = ["--repeat", "4", "--alloc", "glibc,jemalloc"]
JEMALLOC = glob.glob("/usr/lib/*/libjemalloc.so.2")
# Times are of the machine, and of what else it does: their intervals meet when it is quiet (make check-long).
RATIOS = ["peak_rss_bytes", "fragmentation"] + (["cpu_ns"] if LONG else [])
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo", "squeue", "setpriv")
SHARDS = 4
CONFIGURATION = """ClusterName=mallow
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
SchedulerType=sched/builtin
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
SlurmdTimeout=600
MessageTimeout=60
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={one} CPUs=1 State=UNKNOWN
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={two} CPUs=1 State=UNKNOWN
PartitionName=all Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    lacking = [p for p in NEEDED if not shutil.which(p)]
    if lacking:
        return f"{', '.join(lacking)} not here; scripts/dependencies check installs Slurm where there is a package"
    return None if os.getuid() == 0 else "only root starts a cluster"


class Case(unittest.TestCase):
    maxDiff = None

    def check(self, directory, name):
        """merged.json is the shards; name: of the file of one."""
        expected = {}
        for k in range(1, SHARDS + 1):
            with open(os.path.join(directory, name.format(k))) as f:
                part = json.load(f)
            self.assertEqual(part["shard"], f"{k}/{SHARDS}")
            self.assertTrue(part["corpus"])
            expected.update({w["workload"]: w for w in part["corpus"]})
        with open(os.path.join(directory, "merged.json")) as f:
            merged = json.load(f)
        self.assertEqual({w["workload"]: w for w in merged["corpus"]}, expected)
        self.assertGreaterEqual(len(expected), SHARDS)
        self.assertIn("geometric_means", merged)


    def check_statistics(self, directory):
        """Every ratio of merged.json is that of one run, as far as the two are known."""
        out = subprocess.run([MALLOW, "compare", "--corpus", "--json", *TWO], stdout=subprocess.PIPE, text=True, check=True).stdout
        with open(os.path.join(directory, "merged.json")) as f:
            both = [json.load(f), json.loads(out)]
        found = []
        for document in both:
            ratios = {("all", c["candidate"], name): c[name] for c in document["geometric_means"] for name in RATIOS}
            for w in document["corpus"]:
                ratios |= {(w["workload"], c["candidate"], name): c[name] for c in w["candidates"] for name in RATIOS if "ratio" in c[name]}
            found.append(ratios)
        merged, whole = found
        self.assertEqual(set(merged), set(whole))
        self.assertGreater(len(merged), SHARDS * len(RATIOS))
        apart = {k: (merged[k], whole[k]) for k in merged if merged[k]["ratio_low"] > whole[k]["ratio_high"] or
                 whole[k]["ratio_low"] > merged[k]["ratio_high"]}
        print(f"{len(merged)} ratios of four shards and of one run; {len(apart)} with intervals apart", file=sys.stderr)
        self.assertEqual(apart, {})


@unittest.skipIf(not shutil.which("parallel"), "no GNU parallel here; scripts/dependencies check installs it")
class Parallel(Case):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mallow-parallel-")
        self.out = os.path.join(self.directory, "out")

    def tearDown(self):
        shutil.rmtree(self.directory)

    def start(self, *options, status=0, mallow=MALLOW):
        environment = dict(os.environ, MALLOW=mallow, HOME=self.directory)
        environment.pop("PARALLEL_SSHLOGINFILE", None)
        p = subprocess.run([os.path.join(ROOT, "packaging/parallel/compare-corpus"), str(SHARDS), self.out, *options],
                           env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(p.returncode, status, p.stdout + p.stderr)
        return p

    def test_corpus(self):
        """A shard that fails is run again, and no other; the words of options reach every shard as they were."""
        program = os.path.join(self.directory, "mal low")
        with open(program, "w") as f:
            f.write(f'#!/bin/bash\necho "$*" >>"{self.directory}/calls"\n'
                    f'[ -e "{self.directory}/works" ] || [[ "$*" != *2/{SHARDS}* ]] || exit 1\nexec {MALLOW} "$@"\n')
        os.chmod(program, 0o755)
        self.start(*OPTIONS, status=1, mallow=program)
        self.assertFalse(os.path.exists(os.path.join(self.out, "merged.json")))
        open(os.path.join(self.directory, "works"), "w").close()
        self.assertIn("peak RSS", self.start(*OPTIONS, mallow=program).stdout)
        self.check(self.out, "shard-{}")
        with open(os.path.join(self.directory, "calls")) as f:
            calls = [line.split() for line in f if "--shard" in line]
        self.assertEqual([c[c.index("--shard") + 1] for c in calls],
                         [f"{k}/{SHARDS}" for k in (*range(1, SHARDS + 1), 2)])
        self.assertTrue(all(c[-len(OPTIONS):] == OPTIONS for c in calls))
        self.assertIn("other arguments", self.start("--repeat", "3", status=2).stderr)

    def test_usage(self):
        p = subprocess.run([os.path.join(ROOT, "packaging/parallel/compare-corpus"), "x", self.out],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual([p.returncode, p.stderr[:5]], [2, "usage"])


@unittest.skipIf(missing(), missing())
class Slurm(Case):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="mallow-slurm-")
        os.chmod(cls.directory, 0o755)
        cls.processes = []
        for name in ("state", "spool-node1", "spool-node2"):
            os.mkdir(os.path.join(cls.directory, name))
        controller, one, two = free_ports(3)
        with open(os.path.join(cls.directory, "slurm.conf"), "w") as f:
            f.write(CONFIGURATION.format(host=socket.gethostname().split(".")[0], directory=cls.directory,
                                         controller=controller, one=one, two=two))
        with open(os.path.join(cls.directory, "munge.key"), "wb") as f:
            f.write(os.urandom(128))
        os.chmod(f.name, 0o400)
        cls.environment = dict(os.environ, SLURM_CONF=os.path.join(cls.directory, "slurm.conf"), MALLOW=MALLOW)
        in_directory = lambda name: os.path.join(cls.directory, name)  # noqa: E731
        cls.start("munged", "--foreground", "--force", "--key-file", in_directory("munge.key"), "--socket",
                  in_directory("munge.socket"), "--pid-file", in_directory("munge.pid"), "--log-file",
                  in_directory("munge.log"), "--seed-file", in_directory("munge.seed"))
        cls.wait(lambda: os.path.exists(in_directory("munge.socket")))
        cls.start("slurmctld", "-D", "-i")
        for node in ("node1", "node2"):
            cls.start("slurmd", "-D", "-N", node)
        cls.wait(lambda: cls.ask("sinfo", "-h", "-o", "%t %D") == ["idle", "2"])

    @classmethod
    def start(cls, *command):
        out = open(os.path.join(cls.directory, f"output-{len(cls.processes)}"), "w")
        cls.processes.append(subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                              env=cls.environment, start_new_session=True))
        out.close()

    @classmethod
    def wait(cls, there):
        """Until a state is there, or a daemon has ended; the test's own time limit is the only other end."""
        while not there():
            for n, p in enumerate(cls.processes):
                if p.poll() is not None:
                    with open(os.path.join(cls.directory, f"output-{n}")) as f:
                        text = f.read()[-2000:]
                    cls.tearDownClass()
                    if "initialize cgroup plugin" in text:
                        raise unittest.SkipTest("SKIPPED, LOUDLY: slurmd ends without control groups: " + text[-300:])
                    raise RuntimeError(f"{p.args} ended: {text}")
            with open(os.path.join(cls.directory, "slurmctld.log"), "a+") as f:
                f.seek(0)
                if "has invalid account" in f.read():  # 23.11.4 cannot read the lists that accounting_storage lacks
                    version = " ".join(cls.ask("slurmctld", "-V") or ["slurmctld"])
                    raise unittest.SkipTest(f"SKIPPED, LOUDLY: {version} starts no job without a database of accounts (slurmdbd)")
            time.sleep(0.2)

    @classmethod
    def ask(cls, *command):
        """None: the controller had no answer yet."""
        p = subprocess.run(command, env=cls.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return None if p.returncode else p.stdout.split()

    @classmethod
    def tearDownClass(cls):
        for p in reversed(cls.processes):
            if p.poll() is None:
                p.send_signal(signal.SIGTERM if "munged" in p.args else signal.SIGKILL)
            p.wait()
        shutil.rmtree(cls.directory, ignore_errors=True)

    def test_corpus(self):
        out = os.path.join(self.directory, "out")
        job = subprocess.run([os.path.join(ROOT, "packaging/slurm/compare-corpus"), str(SHARDS), out, *(TWO if JEMALLOC else OPTIONS)],
                             env=self.environment, stdout=subprocess.PIPE, text=True, check=True)
        self.assertTrue(job.stdout.strip().isdigit(), job.stdout)
        merged = os.path.join(out, "merged.json")
        self.wait(lambda: os.path.exists(merged) or self.ask("squeue", "-h") == [])
        logs = ""
        for name in os.listdir(out):
            if name.endswith(".out"):
                with open(os.path.join(out, name)) as f:
                    logs += name + ": " + f.read()
        self.assertTrue(os.path.exists(merged), logs)
        self.check(out, "shard-{}.json")
        if JEMALLOC:
            self.check_statistics(out)
        with open(os.path.join(self.directory, "slurmctld.log")) as f:
            log = f.read()
        self.assertTrue("NodeList=node1" in log and "NodeList=node2" in log, "one node had all jobs: " + log)
