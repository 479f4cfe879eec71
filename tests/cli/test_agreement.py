"""--help, the man page and all completions name the same options for every command, and the man
pages and mallow(1) name every command and no other. The checks are first seen to fail."""
import os
import re
import shlex
import shutil
import subprocess

from mallowtest import ROOT, Test
from cli import commands, help_options, mallow

MAN = os.path.join(ROOT, "docs", "man")


def man_options(path):
    """The options that the list in the OPTIONS section of a man page defines."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    section = re.search(r"^\.SH OPTIONS\n(.*?)(?=^\.SH )", text, re.S | re.M)
    if not section:
        return set()
    found = set()
    # An option is defined by the line after .TP (or .TQ); later mentions are prose.
    for line in re.findall(r"^\.T[PQ].*\n(.*)$", section.group(1), re.M):
        plain = re.sub(r"\\f.|\\fR", "", line).replace("\\-", "-")
        plain = re.sub(r'^\.(BR?|BI|RB|IR|B) ?', "", plain).replace('"', "")
        found.update(re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", plain))
    return found


def man_commands(folder):
    """Commands that have a page, and commands that mallow(1) lists."""
    pages = {name[len("mallow-"):-2] for name in os.listdir(folder)
             if name.startswith("mallow-") and name.endswith(".1")}
    with open(os.path.join(folder, "mallow.1"), encoding="utf-8") as f:
        section = re.search(r"^\.SH COMMANDS\n(.*?)(?=^\.SH )", f.read(), re.S | re.M).group(1)
    return pages, set(re.findall(r"^\.TP\n\.BR \"?mallow\\-([\w-]+)\"? \(1\)", section, re.M))


def bash_words(script, *words):
    """What bash completion offers for the last of the words."""
    quoted = " ".join(shlex.quote(w) for w in words)
    program = (f"source {shlex.quote(script)}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _mallow; "
               'printf "%s\\n" "${COMPREPLY[@]}"')
    out = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, check=True)
    assert not out.stderr, out.stderr
    return {line for line in out.stdout.splitlines() if line}


def zsh_options(script, command):
    """The options that the zsh completion defines for a command."""
    block = re.search(rf"^        {re.escape(command)}\)\n        _arguments(.*?);;", script, re.S | re.M).group(1)
    return set(re.findall(r"'(?:\*|\([^)]*\))?(--?[A-Za-z][\w-]*)[+=]?\[", block))


def fish_options(script, command):
    """The options that the fish completion defines for a command."""
    found = set()
    for line in re.findall(rf"^complete -c mallow -n '__fish_seen_subcommand_from {re.escape(command)}' (.*)", script,
                           re.M):
        words = line.split(" -d ")[0].split()
        found.update(f"-{words[i + 1]}" for i, word in enumerate(words[:-1]) if word == "-s")
        found.update(f"--{words[i + 1]}" for i, word in enumerate(words[:-1]) if word == "-l")
    return found


def complaints(folder, bash_script, zsh_text, fish_text):
    """Everything that disagrees, as lines."""
    bad = []
    names = commands()
    pages, listed = man_commands(folder)
    for what, found in (("man pages", pages), ("mallow(1)", listed),
                        ("bash completion", bash_words(bash_script, "mallow", "") - {"--help", "--version"}),
                        ("zsh completion", set(re.findall(r"^        ([\w-]+)\)$", zsh_text, re.M))),
                        ("fish completion", set(re.findall(r"use_subcommand -f -a (\S+) ", fish_text)))):
        if found != set(names):
            bad.append(f"commands: help has {sorted(names)}, {what} {sorted(found)}")
    for name in sorted(set(names) & pages):
        options = help_options(mallow(name, "--help").stdout)
        for what, found in (("man page", man_options(os.path.join(folder, f"mallow-{name}.1"))),
                            ("bash completion", bash_words(bash_script, "mallow", name, "-")),
                            ("zsh completion", zsh_options(zsh_text, name)),
                            ("fish completion", fish_options(fish_text, name))):
            if found != options:
                bad.append(f"{name}: --help and {what} differ in {sorted(found ^ options)}")
    return bad


def strangers(name, source):
    """The names in relations of a command's options that are none of its options. GATE_SPECS stand with --fail-above."""
    options = help_options(mallow(name, "--help").stdout)
    related = {word for names in re.findall(r'\.(?:not_)?with\s*=\s*"([^"]*)"', source) for word in names.split("|")}
    return sorted(word for word in related if f"-{word}" not in options and f"--{word}" not in options)


class Relations(Test):
    """An option that another one needs or excludes is an option of the same command."""

    def test_names(self):
        folder = os.path.join(ROOT, "src", "cli")
        found = {}
        for name in commands():
            path = os.path.join(folder, f"cmd_{name}.c")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as f:
                    found[name] = f.read()
        self.assertGreater(len(found), 15)
        self.assertEqual({name: strangers(name, text) for name, text in found.items() if strangers(name, text)}, {})
        self.assertGreater(sum(text.count("with = ") for text in found.values()), 25)
        self.assertEqual(strangers("watch", found["watch"].replace('"listen|push"', '"listen|pull"')), ["pull"])


class Agreement(Test):
    def setUp(self):
        self.man = os.path.join(self.folder, "man")
        shutil.copytree(MAN, self.man)
        self.bash = os.path.join(self.folder, "mallow.bash")
        with open(self.bash, "w", encoding="utf-8") as f:
            f.write(mallow("help", "--completion", "bash").stdout)
        self.zsh = mallow("help", "--completion=zsh").stdout
        self.fish = mallow("help", "--completion=fish").stdout

    def test_all_agree(self):
        self.assertEqual(complaints(self.man, self.bash, self.zsh, self.fish), [])

    def edit(self, path, old, new):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.assertIn(old, text)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))

    def test_a_page_that_lacks_an_option_is_seen(self):
        self.edit(os.path.join(self.man, "mallow-doctor.1"), "\\-\\-json", "\\-\\-jason")
        self.assertEqual(complaints(self.man, self.bash, self.zsh, self.fish),
                         ["doctor: --help and man page differ in ['--jason', '--json']"])

    def test_a_page_too_many_is_seen(self):
        shutil.copy(os.path.join(self.man, "mallow-doctor.1"), os.path.join(self.man, "mallow-surgeon.1"))
        self.assertEqual(len(complaints(self.man, self.bash, self.zsh, self.fish)), 1)

    def test_a_completion_that_lacks_an_option_is_seen(self):
        self.edit(self.bash, "--json", "")
        found = complaints(self.man, self.bash, self.zsh, self.fish)
        self.assertIn("doctor: --help and bash completion differ in ['--json']", found)
        found = complaints(self.man, self.bash, self.zsh.replace("--json", "--jsn"), self.fish)
        self.assertIn("doctor: --help and zsh completion differ in ['--jsn', '--json']", found)
        found = complaints(self.man, self.bash, self.zsh, self.fish.replace("-l json", "-l jsn"))
        self.assertIn("doctor: --help and fish completion differ in ['--jsn', '--json']", found)

    def test_completed_values(self):
        self.assertEqual(bash_words(self.bash, "mallow", "help", "--completion", "="), {"bash", "zsh", "fish"})
        self.assertEqual(bash_words(self.bash, "mallow", "help", "--completion", "z"), {"zsh"})
        self.assertEqual(bash_words(self.bash, "mallow", "help", "doc"), {"doctor"})
        self.assertEqual(bash_words(self.bash, "mallow", "no-such", "-"), set())

    def test_fish_parses_its_script(self):
        if not shutil.which("fish"):
            self.skipTest("no fish on this machine")
        path = os.path.join(self.folder, "mallow.fish")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.fish)
        subprocess.run(["fish", "--no-execute", path], check=True)
        out = subprocess.run(["fish", "--no-config", "-c", f"source {path}; complete -C 'mallow report --js'"],
                             capture_output=True, text=True, check=True)
        self.assertTrue(out.stdout.startswith("--json\t"), out.stdout)

    def test_zsh_parses_its_script(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh on this machine")
        path = os.path.join(self.folder, "_mallow")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.zsh)
        subprocess.run(["zsh", "-n", path], check=True)

    def test_the_pages_are_sound(self):
        """man formats every page without a warning."""
        if not shutil.which("man"):
            self.skipTest("no man on this machine")
        for name in sorted(os.listdir(MAN)):
            out = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z",
                                  os.path.join(MAN, name)], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True, check=True,
                                 env=dict(os.environ, MANWIDTH="80", LC_ALL="C.UTF-8"))
            self.assertEqual(out.stderr, "", name)
