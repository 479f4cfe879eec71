"""Names of addresses: programs with known truth, files found in every way, damage, hostile names."""
import ctypes
import http.server
import lzma
import os
import random
import re
import shutil
import subprocess
import tempfile
import threading
import unittest

from mallowtest import Test, program

HERE = os.path.dirname(os.path.abspath(__file__))
SYMBOLISE, SMALL, FUZZ_ELF, FUZZ_NAMES = (program('symbol/' + name) for name in ('symbolise', 'symbolise-small', 'fuzz-elf', 'fuzz-names'))
PLAIN = {k: v for k, v in os.environ.items() if not k.startswith('DEBUGINFOD')}


def run(*command, env=None, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=env or PLAIN)
    if done.returncode != 0:
        raise AssertionError('%s: %d\n%s%s' % (' '.join(command), done.returncode, done.stdout,
                                               done.stderr))
    return done.stdout


class Frame:
    def __init__(self, line):
        part = line.split('\t')
        self.function = part[0]
        self.file, _, number = part[1].rpartition(':')
        self.line = int(number)
        self.module = part[2]
        self.offset = int(part[3])
        self.inlined = len(part) > 4

    def __repr__(self):
        return '%s %s:%d' % (self.function, os.path.basename(self.file), self.line)


def symbolise(addresses, *options, env=None, tool=None):
    """[[Frame, ...] of each address], [problem, ...]"""
    out = run(tool or SYMBOLISE, *options, env=env,
              text=''.join('%x\n' % a for a in addresses))
    frames, problems = [], []
    for line in out.splitlines():
        if line.startswith('  '):
            frames[-1].append(Frame(line[2:]))
        elif line.startswith('! '):
            problems.append(line[2:])
        else:
            frames.append([])
    assert len(frames) == len(addresses)
    return frames, problems


def build_id(path):
    found = re.search(r'Build ID: ([0-9a-f]+)', run('readelf', '-n', path))
    return found.group(1) if found else None


def marks(source):
    """{mark: line number}"""
    found = {}
    with open(os.path.join(HERE, source)) as f:
        for number, line in enumerate(f, 1):
            mark = re.search(r'// mark (\w+)', line)
            if mark:
                found[mark.group(1)] = number
    return found


def labels(program):
    """{label: (return address, load bias)} as the program prints them."""
    found = {}
    is_pie = 'DYN' in run('readelf', '-hW', program)
    for line in run(program).splitlines():
        label, address, start = line.split()
        found[label] = (int(address, 16), int(start, 16) if is_pie else 0)
    return found


LINE = marks('victim.cc')
# The functions of each label, innermost first, with the lines that a debugger shows.
TRUTH = {
    'plain': [('leaf(char const*)', 'leaf'), ('middle(char const*)', 'middle'),
              ('outer(int)', 'plain')],
    'hidden': [('(anonymous namespace)::Hidden::peek()', 'hidden'), ('outer(int)', 'peeking')],
    'ctor': [('shop::Till::Till(int)', 'ctor')],
    'method': [('leaf(char const*)', 'leaf'), ('middle(char const*)', 'middle'),
               ('shop::Till::add(int)', 'method'),
               ('long shop::doubled<long>(long)', 'template')],
    'cold': [('splits(int)', 'cold')],
}


class Case(Test):
    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def compile(self, name='victim', *flags, compiler='g++', sources=('victim.cc',)):
        program = self.path(name)
        paths = [os.path.join(HERE, s) for s in sources]
        run(compiler, '-O2', '-g', *flags, '-o', program, *paths)
        return program

    def lookup(self, program, label, *options, env=None, module=None, found=None):
        address, bias = (found or labels(program))[label]
        frames, problems = symbolise([address], '-R', '-b', '%x' % bias, *options,
                                     module or program, env=env)
        return frames[0], problems

    def check_all(self, program, *options, env=None, module=None, found=None):
        """Every chain of the truth, and no problem."""
        found = found or labels(program)
        self.assertEqual(set(found), set(TRUTH))
        for label, truth in TRUTH.items():
            frames, problems = self.lookup(program, label, *options, env=env, module=module,
                                           found=found)
            said = '%s: %s %s' % (label, frames, problems)
            self.assertEqual(len(frames), len(truth), said)
            for frame, (function, mark) in zip(frames, truth):
                # A function without a linkage name is named without its parameters.
                self.assertIn(frame.function, (function, re.sub(r'\([^()]*\)$', '', function)),
                              said)
                self.assertEqual(os.path.basename(frame.file), 'victim.cc', said)
                self.assertEqual(frame.line, LINE[mark], said)
                self.assertEqual(frame.module, os.path.basename(module or program), said)
            self.assertEqual([f.inlined for f in frames], [True] * (len(truth) - 1) + [False])
            self.assertGreater(frames[-1].offset, 0)
            self.assertEqual(problems, [])


class Inlining(Case):
    """The same truth whatever the form of the debug information."""

    def test_dwarf_5(self):
        self.check_all(self.compile('victim', '-gdwarf-5'))

    def test_dwarf_4(self):
        self.check_all(self.compile('victim', '-gdwarf-4'))

    def test_dwarf_3(self):
        self.check_all(self.compile('victim', '-gdwarf-3', '-gstrict-dwarf'))

    def test_fixed_address(self):
        self.check_all(self.compile('victim', '-no-pie'))

    def test_lto(self):
        self.check_all(self.compile('victim', '-flto'))

    def test_compressed(self):
        self.check_all(self.compile('victim', '-gz'))

    def test_sections(self):
        self.check_all(self.compile('victim', '-ffunction-sections', '-Wl,--gc-sections'))

    def test_split_dwarf(self):
        self.check_all(self.compile('victim', '-gsplit-dwarf', '-gdwarf-5'))

    def test_type_units(self):
        self.check_all(self.compile('victim', '-fdebug-types-section', '-gdwarf-4'))

    def test_relative_source(self):
        """The compiler was given a relative path: the answer has the whole one."""
        os.mkdir(self.path('src'))
        shutil.copy(os.path.join(HERE, 'victim.cc'), self.path('src'))
        for version in ('-gdwarf-4', '-gdwarf-5'):
            done = subprocess.run(['g++', '-O2', '-g', version, '-o', 'victim', './src/victim.cc'],
                                  cwd=self.folder, env=PLAIN)
            self.assertEqual(done.returncode, 0)
            frames, _ = self.lookup(self.path('victim'), 'plain')
            self.assertEqual([os.path.realpath(f.file) for f in frames],
                             [os.path.realpath(self.path('src', 'victim.cc'))] * 3)
            self.assertTrue(all(os.path.isabs(f.file) for f in frames))

    @unittest.skipUnless(shutil.which('clang'), 'no clang')
    def test_clang(self):
        if subprocess.run(['clang++', '-x', 'c++', '-', '-o', self.path('try')],
                          input=b'int main() {}').returncode:
            self.skipTest('clang links no C++')
        for flag in ('-gdwarf-5', '-gdwarf-4'):
            self.check_all(self.compile('victim', flag, compiler='clang++'))

    def test_cold_part_has_the_name_of_its_function(self):
        program = self.compile()
        symbols = run('nm', program)
        self.assertRegex(symbols, r'_Z6splitsi\.cold')
        run('strip', '-g', program)  # the name does not depend on what there is to read
        frames, problems = self.lookup(program, 'cold')
        self.assertEqual(frames[0].function, 'splits(int)')
        self.assertIn('no debug information', problems[0])

    def test_names_only(self):
        frames, problems = self.lookup(self.compile(), 'plain', '-n')
        self.assertEqual([(f.function, f.line) for f in frames], [('outer(int)', 0)])
        self.assertEqual(problems, [])

    def test_dynamic_symbols(self):
        program = self.compile('victim', '-rdynamic')
        run('strip', program)
        frames, _ = self.lookup(program, 'plain')
        self.assertEqual(frames[0].function, 'outer(int)')

    def test_stripped_of_all(self):
        program = self.compile('victim')
        run('strip', program)
        frames, problems = self.lookup(program, 'plain')
        self.assertEqual(frames[0].function, '??')
        self.assertEqual(frames[0].module, 'victim')
        self.assertEqual(len(problems), 1)
        self.assertIn(': 1 place has no name; ', problems[0])

    def test_closing_changes_nothing(self):
        """With room for next to no DWARF everything is opened again and again."""
        program = self.compile()
        code = addresses_of_code(program)
        sample = random.Random(3).sample(code, min(200, len(code)))
        self.assertEqual(run(SYMBOLISE, program, text='\n'.join(sample)),
                         run(SMALL, program, text='\n'.join(sample)))

    def test_stub(self):
        program = self.compile('victim', '-fcf-protection', '-z', 'lazy')
        stubs = re.findall(r'([0-9a-f]+) <(\w+)@plt>:', run('objdump', '-d', program))
        self.assertTrue(stubs)
        for address, name in stubs:
            if name.startswith('__cxa'):  # .plt.got: not named
                continue
            frames, _ = symbolise([int(address, 16)], program)
            self.assertEqual(frames[0][0].function, name + '@plt')

    def test_d(self):
        if not shutil.which('gdc'):
            self.skipTest('no gdc')
        run('gcc', '-O2', '-c', '-o', self.path('probe.o'), os.path.join(HERE, 'probe.c'))
        program = self.path('victim-d')
        run('gdc', '-O2', '-g', '-fno-inline', '-o', program,
            os.path.join(HERE, 'victim_dlang.d'), self.path('probe.o'))
        frames, _ = self.lookup(program, 'method')
        self.assertEqual(frames[0].function, 'shop.till.Till.add(int)')
        self.assertEqual(frames[0].line, marks('victim_dlang.d')['method'])

    def test_rust(self):
        if not shutil.which('rustc'):
            self.skipTest('no rustc')
        run('gcc', '-O2', '-c', '-o', self.path('probe.o'), os.path.join(HERE, 'probe.c'))
        for form in ('legacy', 'v0'):
            program = self.path('victim-' + form)
            mangling = ['-Csymbol-mangling-version=' + form]
            if form == 'legacy':
                mangling = ['-Zunstable-options'] + mangling
            done = subprocess.run(
                ['rustc', '-O', '-g', *mangling, '-Clink-arg=' + self.path('probe.o'), '-o',
                 program, os.path.join(HERE, 'victim_rust.rs')],
                capture_output=True, env=dict(PLAIN, RUSTC_BOOTSTRAP='1'))
            if done.returncode:
                self.skipTest('rustc builds nothing here')
            frames, _ = self.lookup(program, 'method')
            self.assertRegex(frames[0].function, r'victim_rust::shop::Till>?::add$')
            self.assertEqual(frames[0].line, marks('victim_rust.rs')['method'])


def addresses_of_code(program):
    return re.findall(r'^ +([0-9a-f]+):', run('objdump', '-d', '-j', '.text',
                                              '--no-show-raw-insn', program), re.M)


def base(name):
    """The last part of a function's name, without template arguments and parameters."""
    name = name.replace('(anonymous namespace)::', '')
    return re.split(r'[ :*&]', re.split(r'[<(]', name)[0])[-1]


class Oracle(Case):
    """addr2line of GNU binutils, which shares no code with libdw, on a program full of inlining."""

    SOURCE = '''
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include <cstdio>
struct Item { std::string name; std::vector<int> sizes; };
static std::map<std::string, std::shared_ptr<Item>> items;
int add(const std::string &name, int n)
{
    auto item = std::make_shared<Item>();
    item->name = name + "/" + std::to_string(n);
    for (int i = 0; i < n; i++)
        item->sizes.push_back(i * n);
    std::sort(item->sizes.begin(), item->sizes.end(), [](int a, int b) { return a > b; });
    items[item->name] = item;
    return (int)items.size();
}
int main(int argc, char **argv)
{
    std::vector<std::string> all(argv, argv + argc);
    std::sort(all.begin(), all.end());
    int sum = 0;
    for (auto &name : all)
        sum += add(name, argc);
    for (auto &pair : items)
        sum += std::count_if(pair.second->sizes.begin(), pair.second->sizes.end(),
                             [&](int n) { return n % 2 == argc % 2; });
    std::printf("%d\\n", sum);
}
'''

    def agree(self, *flags):
        source = self.path('items.cc')
        with open(source, 'w') as f:
            f.write(self.SOURCE)
        program = self.path('items')
        run('g++', '-O2', '-g', *flags, '-o', program, source)
        code = addresses_of_code(program)
        self.assertGreater(len(code), 1000)
        sample = random.Random(1).sample(code, 800)
        ours, problems = symbolise([int(a, 16) for a in sample], program)
        self.assertEqual(problems, [])
        theirs, lines = [], run('addr2line', '-a', '-i', '-f', '-C', '-e', program,
                                *sample).splitlines()
        while lines:
            if re.fullmatch('0x[0-9a-f]{16}', lines[0]):
                theirs.append([])
                lines = lines[1:]
            else:
                place = re.sub(r' \(discriminator \d+\)', '', lines[1])
                theirs[-1].append((lines[0], place.replace(':?', ':0')))
                lines = lines[2:]
        compared = same_lines = same_names = 0
        differences = []
        for address, mine, other in zip(sample, ours, theirs):
            # What lies between functions addr2line gives to the one before; symbols of start-up
            # code it gives the name of their file.
            if mine[-1].function == '??' or mine[0].file == '??':
                continue
            compared += 1
            places = [(os.path.normpath(f.file), f.line) for f in mine]
            same_lines += places == [(os.path.normpath(p.rpartition(':')[0]),
                                      int(p.rpartition(':')[2])) for _, p in other]
            # It names inlined functions without linkage name after the function around them, and
            # templates by their bare name.
            agree = all(base(f.function) == base(n) for f, (n, _) in zip(mine, other)
                        if re.search(r'\)( const)?$', f.function) or not f.inlined)
            same_names += agree
            if not agree:
                differences.append('%s %s %s' % (address, [f.function[-90:] for f in mine], [n[-90:] for n, _ in other]))
        self.assertGreater(compared, 600)
        self.assertGreaterEqual(same_lines, compared * 0.98, '\n'.join(differences[:3]))
        self.assertGreaterEqual(same_names, compared * 0.98, '\n'.join(differences[:3]))
        self.assertGreater(sum(len(f) > 2 for f in ours), 100)

    def test_dwarf_5(self):
        self.agree('-gdwarf-5')

    def test_dwarf_4(self):
        self.agree('-gdwarf-4')


class Files(Case):
    """Debug information beside, below, by build-id, from elsewhere; and files that do not belong."""

    def split(self, *flags):
        """A stripped program and its debug file, not yet linked."""
        program = self.compile('victim', *flags)
        debug = self.path('victim.debug')
        run('objcopy', '--only-keep-debug', program, debug)
        run('strip', program)
        return program, debug

    def link(self, program, debug):
        run('objcopy', '--add-gnu-debuglink=' + debug, program)

    def test_link_beside(self):
        program, debug = self.split()
        self.link(program, debug)
        self.check_all(program)

    def test_link_below(self):
        program, debug = self.split('-Wl,--build-id=none')
        self.link(program, debug)
        os.mkdir(self.path('.debug'))
        os.rename(debug, self.path('.debug', 'victim.debug'))
        self.check_all(program)

    def test_link_in_tree(self):
        program, debug = self.split('-Wl,--build-id=none')
        self.link(program, debug)
        place = self.path('tree') + os.path.realpath(self.folder)
        os.makedirs(place)
        os.rename(debug, os.path.join(place, 'victim.debug'))
        self.check_all(program, '-d', self.path('tree'))

    def test_compressed_by_zstd(self):
        """Older libdw cannot read it, which is said. Newer ones do."""
        packed = self.path('packed')
        done = subprocess.run(['objcopy', '--compress-debug-sections=zstd', self.compile('victim'), packed],
                              capture_output=True, text=True)
        if done.returncode or 'ZSTD' not in run('readelf', '-t', packed):
            self.skipTest('this objcopy has no zstd: ' + done.stderr)
        debug = self.path('packed.debug')
        run('objcopy', '--only-keep-debug', packed, debug)
        apart = self.path('apart')
        run('objcopy', '--strip-debug', '--add-gnu-debuglink=' + debug, packed, apart)
        for program in packed, apart:
            frames, problems = self.lookup(program, 'plain')
            self.assertNotEqual(frames[0].function, '??')
            if frames[0].line:
                self.check_all(program)
            else:
                self.assertIn('compressed with zstd', str(problems))
                self.assertEqual(len(problems), 1)

    def test_link_checksum(self):
        program, debug = self.split('-Wl,--build-id=none')
        self.link(program, debug)
        with open(debug, 'ab') as f:
            f.write(b'x')
        frames, problems = self.lookup(program, 'plain')
        self.assertEqual(frames[0].function, '??')
        self.assertIn('checksum', problems[0])

    def by_id(self, debug, identity, suffix='.debug'):
        place = self.path('ids', '.build-id', identity[:2])
        os.makedirs(place, exist_ok=True)
        os.rename(debug, os.path.join(place, identity[2:] + suffix))
        return self.path('ids')

    def test_build_id(self):
        program, debug = self.split()
        ids = self.by_id(debug, build_id(program))
        self.check_all(program, '-d', ids, '-i', build_id(program))

    def test_build_id_of_another(self):
        program, debug = self.split()
        os.rename(self.compile('other', '-DOTHER', '-O1'), debug)
        ids = self.by_id(debug, build_id(program))
        frames, problems = self.lookup(program, 'plain', '-d', ids)
        self.assertEqual(frames[0].function, '??')
        self.assertIn('another build', problems[0])

    def test_module_gone(self):
        """On another machine: the debug file alone has all."""
        program, debug = self.split()
        identity, found = build_id(program), labels(program)
        ids = self.by_id(debug, identity)
        os.unlink(program)
        for label, truth in TRUTH.items():
            frames, _ = self.lookup(program, label, '-d', ids, '-i', identity, found=found)
            self.assertEqual([f.line for f in frames], [LINE[mark] for _, mark in truth])

    def test_module_gone_without_trace(self):
        frames, problems = symbolise([0x1234], '-i', '00112233', self.path('nothing.so'))
        self.assertEqual((frames[0][0].function, frames[0][0].module), ('??', 'nothing.so'))
        self.assertIn('No such file', problems[0])

    def test_module_replaced(self):
        """The file at the path is of another build: it must not name anything."""
        program = self.compile()
        frames, problems = self.lookup(program, 'plain', '-i', '0011223344556677')
        self.assertEqual(frames[0].function, '??')
        self.assertEqual(len(problems), 1)
        self.assertIn('another build', problems[0])
        self.assertIn(build_id(program), problems[0])

    def test_module_replaced_but_debug_file_there(self):
        program, debug = self.split()
        identity, found = build_id(program), labels(program)
        ids = self.by_id(debug, identity)
        os.rename(self.compile('other', '-O1'), program)
        frames, problems = self.lookup(program, 'plain', '-d', ids, '-i', identity, found=found)
        self.assertEqual([f.line for f in frames], [LINE[m] for _, m in TRUTH['plain']])
        self.assertIn('another build', problems[0])

    def test_sysroot(self):
        program = self.compile()
        found, identity = labels(program), build_id(program)
        os.makedirs(self.path('root', 'opt'))
        os.rename(program, self.path('root', 'opt', 'victim'))
        frames, problems = self.lookup(program, 'plain', '-r', self.path('root'), '-i', identity,
                                       found=found, module='/opt/victim')
        self.assertEqual(len(frames), 3)
        self.assertEqual(problems, [])

    def test_deleted(self):
        program = self.compile()
        frames, _ = self.lookup(program, 'plain', module=program + ' (deleted)')
        self.assertEqual(len(frames), 3)

    def test_not_elf(self):
        place = self.path('text.so')
        with open(place, 'w') as f:
            f.write('no code here\n')
        frames, problems = symbolise([0x1000], place)
        self.assertEqual(frames[0][0].function, '??')
        self.assertIn('not an ELF file', problems[0])

    def test_minidebuginfo(self):
        program = self.compile()
        mini = self.path('mini')
        run('objcopy', '-S', '--remove-section=.comment', '--keep-symbol=_Z5outeri',
            '--keep-symbol=main', program, mini)
        with open(mini, 'rb') as f:
            packed = lzma.compress(f.read())
        with open(mini + '.xz', 'wb') as f:
            f.write(packed)
        run('strip', program)
        run('objcopy', '--add-section', '.gnu_debugdata=' + mini + '.xz', program)
        frames, _ = self.lookup(program, 'plain')
        self.assertEqual(frames[0].function, 'outer(int)')

    @unittest.skipUnless(shutil.which('dwz'), 'no dwz')
    def test_shared_debug_file(self):
        one = self.compile('one', '-gdwarf-4')
        two = self.compile('two', '-gdwarf-4', '-O3')
        run('dwz', '-m', self.path('shared.debug'), one, two)
        self.check_all(one)
        os.unlink(self.path('shared.debug'))
        _, problems = self.lookup(one, 'plain')
        self.assertIn('dwz', problems[0])


def has_debuginfod():
    try:
        ctypes.CDLL('libdebuginfod.so.1')
        return True
    except OSError:
        return False


@unittest.skipUnless(has_debuginfod(), 'no libdebuginfod')
class Debuginfod(Files):
    """A server of debug files on this machine."""

    def setUp(self):
        super().setUp()
        self.files, self.asked, self.status = {}, [], 404
        case = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                case.asked.append(self.path)
                body = case.files.get(self.path)
                self.send_response(200 if body else case.status)
                self.send_header('Content-Length', str(len(body or b'')))
                self.end_headers()
                self.wfile.write(body or b'')

            do_HEAD = do_GET

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.env = dict(PLAIN, DEBUGINFOD_URLS='http://127.0.0.1:%d' % server.server_port,
                        DEBUGINFOD_CACHE_PATH=self.path('cache'), HOME=self.folder,
                        no_proxy='127.0.0.1')

    def served(self):
        program, debug = self.split()
        identity = build_id(program)
        with open(debug, 'rb') as f:
            self.files['/buildid/%s/debuginfo' % identity] = f.read()
        os.unlink(debug)
        return program, identity

    def test_served(self):
        program, identity = self.served()
        self.check_all(program, '-i', identity, env=self.env)
        self.assertIn('/buildid/%s/debuginfo' % identity, self.asked)

    def test_served_without_module(self):
        program, identity = self.served()
        found = labels(program)
        os.unlink(program)
        frames, _ = self.lookup(program, 'plain', '-i', identity, env=self.env, found=found)
        self.assertEqual([f.line for f in frames], [LINE[m] for _, m in TRUTH['plain']])

    def test_not_asked(self):
        program, _ = self.served()
        self.lookup(program, 'plain', '-O', env=self.env)
        self.lookup(program, 'plain', env=PLAIN)
        self.lookup(program, 'plain', env=dict(self.env, DEBUGINFOD_URLS=''))
        self.assertEqual(self.asked, [])

    def test_not_there(self):
        program, _ = self.served()
        self.files.clear()
        _, problems = self.lookup(program, 'plain', env=self.env)
        self.assertIn('debuginfod does not have it', problems[0])

    def test_no_server(self):
        program, _ = self.served()
        _, problems = self.lookup(program, 'plain',
                                  env=dict(self.env, DEBUGINFOD_URLS='http://127.0.0.1:1'))
        self.assertIn('debuginfod failed', problems[0])


# The cases of Files are inherited for their helpers only.
for name in [n for n in dir(Files) if n.startswith('test_')]:
    setattr(Debuginfod, name, None)


class Memory(Case):
    """Code that is in no file."""

    def test_perf_map(self):
        pid = os.getpid()
        place = '/tmp/perf-%d.map' % pid
        with open(place, 'w') as f:
            f.write('1000 100 py::load:/a b.py\n'
                    '2000 40 old\n'
                    'nonsense\n'
                    '3000 zz bad size\n'
                    'fffffffffffffff0 20 wraps\n'
                    '11111111111111111 20 too many digits\n'
                    '4000 10\n'
                    '2000 20 new\n'
                    '0x5000 0x10 prefixed\r\n'
                    '6000 10 _ZN4shop4TillC2Ei\n'
                    '7000 10 last line without end')
        self.addCleanup(os.unlink, place)
        at = [0x1000, 0x10ff, 0x1100, 0x2010, 0x2030, 0x3000, 0x4000, 0x500f, 0x6001, 0x7001,
              0xfffffffffffffff8]
        frames, problems = symbolise(at, '-p', str(pid))
        self.assertEqual([f[0].function for f in frames],
                         ['load', 'load', '??', 'new', '??', '??', '??',
                          'prefixed', 'shop::Till::Till(int)', 'last line without end', '??'])
        self.assertEqual([f[0].module for f in frames][:3], ['[python]', '[python]', '-'])
        self.assertEqual(frames[3][0].module, '[jit]')
        self.assertEqual((frames[0][0].file, frames[0][0].line), ('/a b.py', 0))
        self.assertEqual(frames[1][0].offset, 0xff)
        self.assertEqual(problems, [])
        frames, _ = symbolise([0x1100], '-R', '-p', str(pid))
        self.assertEqual(frames[0][0].function, 'load')

    def scripts(self, names):
        """[(function, file, line, module)] of names in a map."""
        pid = os.getpid()
        place = '/tmp/perf-%d.map' % pid
        with open(place, 'w') as f:
            f.writelines('%x 10 %s\n' % (0x1000 + 16 * i, name) for i, name in enumerate(names))
        try:
            frames, _ = symbolise([0x1000 + 16 * i for i in range(len(names))], '-p', str(pid))
        finally:
            os.unlink(place)
        return [(f[0].function, f[0].file, f[0].line, f[0].module) for f in frames]

    def test_javascript_names(self):
        wanted = {'JS:~fill /a/index.js:3:14': ('fill', '/a/index.js', 3, '[javascript]'),
                  'JS:*get size /a b/index.js:3:14': ('get size', '/a b/index.js', 3, '[javascript]'),
                  'JS:^ /a/index.js:1:1': ('(anonymous)', '/a/index.js', 1, '[javascript]'),
                  'LazyCompile:*alloc node:buffer:391:30': ('alloc', 'node:buffer', 391, '[javascript]'),
                  'JS:~m file:///a/m.mjs:7:1': ('m', '/a/m.mjs', 7, '[javascript]'),
                  'JS:~f /a/index.js': ('f', '/a/index.js', 0, '[javascript]'),
                  'JS:': ('JS:', '??', 0, '[jit]'),
                  'JS:~': ('JS:~', '??', 0, '[jit]'),
                  'py::': ('py::', '??', 0, '[jit]'),
                  'py::f': ('py::f', '??', 0, '[jit]'),
                  'py:::/x': ('py:::/x', '??', 0, '[jit]'),
                  'BytecodeHandler:Construct': ('BytecodeHandler:Construct', '??', 0, '[jit]')}
        self.assertEqual(self.scripts(list(wanted)), list(wanted.values()))

    PYTHON = r"""# def a(): in a comment
'''
def a(): in a text
'''
text = "\
def a(): in another"
call(1,
def_a=2)
class C:
    x = (1,
def_b)
    def a(self): return "def a(): '''"

    async  def b(self):
        def inner(): pass
        class Local:
            def a(self): pass
        return inner

    @property
    def twice(self): pass
    @twice.setter
    def twice(self, v): pass
if text:
    def under_if(): pass
def a(): pass
define = 3
defx = 4
class	E(C): pass
def über(): pass
def last("""

    def test_lines_of_python_functions(self):
        place = self.path('script.py')
        with open(place, 'w', encoding='utf-8') as f:
            f.write(self.PYTHON)
        wanted = {'a': 26, 'C': 9, 'C.a': 12, 'C.b': 14, 'C.b.<locals>.inner': 15, 'C.b.<locals>.Local': 16,
                  'C.b.<locals>.Local.a': 17, 'C.twice': 0, 'under_if': 25, 'E': 29, 'über': 30, 'last': 31,
                  '<module>': 0, '<lambda>': 0, 'missing': 0}
        got = self.scripts(['py::%s:%s' % (name, place) for name in wanted])
        self.assertEqual({name: line for name, _, line, _ in got}, wanted)
        # Neither a directory nor what is not there nor a relative path is an error.
        got = self.scripts(['py::f:%s' % p for p in ('/', '/nonexistent/x.py', 'script.py', '<frozen os>')])
        self.assertEqual([line for _, _, line, _ in got], [0, 0, 0, 0])

    def test_damaged_scripts(self):
        """Nothing that a file holds is more than a wrong line."""
        place = self.path('script.py')
        for text in (b'', b'def', b'def ', b'class C:\n' * 3000, b'"""', b"'''" * 99999, b'((((' * 9999, b'\\',
                     b'\0def a(): pass', b''.join(b' ' * i + b'def a():\n' for i in range(500)), b'\xff' * 4096):
            with open(place, 'wb') as f:
                f.write(text)
            self.assertEqual(len(self.scripts(['py::a:' + place, 'py::C:' + place])), 2)

    def test_long_perf_map(self):
        """It is read up to a bound, and that is said."""
        pid = os.getpid()
        place = '/tmp/perf-%d.map' % pid
        line = '9000 10 ' + 'x' * 4087 + '\n'
        with open(place, 'w') as f:
            f.write('1000 100 first\n' + line * ((64 << 20) // len(line)) + '2000 100 last\n')
        self.addCleanup(os.unlink, place)
        frames, problems = symbolise([0x1000, 0x2000], '-p', str(pid))
        self.assertEqual([f[0].function for f in frames], ['first', '??'])
        self.assertEqual(problems, ['/tmp/perf-%d.map: longer than 64 MiB: read to there' % pid])

    def test_no_perf_map(self):
        frames, _ = symbolise([0x1000], '-p', '4194303')
        self.assertEqual((frames[0][0].function, frames[0][0].module), ('??', '-'))

    def test_perf_map_is_a_link(self):
        """A link in /tmp is not followed: anybody can put one there."""
        pid = 4194302
        target = self.path('map')
        with open(target, 'w') as f:
            f.write('1000 100 planted\n')
        os.symlink(target, '/tmp/perf-%d.map' % pid)
        self.addCleanup(os.unlink, '/tmp/perf-%d.map' % pid)
        frames, _ = symbolise([0x1000], '-p', str(pid))
        self.assertEqual(frames[0][0].function, '??')

    def test_vdso(self):
        with open('/proc/self/maps') as f:
            line = [x for x in f if '[vdso]' in x]
        if not line:
            self.skipTest('no vdso')
        start, end = (int(x, 16) for x in line[0].split()[0].split('-'))
        with open('/proc/self/mem', 'rb') as f:
            f.seek(start)
            image = f.read(end - start)
        with open(self.path('vdso.so'), 'wb') as f:
            f.write(image)
        symbols = re.findall(r'^([0-9a-f]+) [TtWw] (\w+)', run('nm', '-D', self.path('vdso.so')),
                             re.M)
        address = [int(a, 16) for a, name in symbols if name.endswith('clock_gettime')][0]
        frames, problems = symbolise([start + address], '-b', '%x' % start, '[vdso]')
        self.assertRegex(frames[0][0].function, 'clock_gettime$')
        self.assertEqual(frames[0][0].module, '[vdso]')
        self.assertEqual(problems, [])
        frames, _ = symbolise([start + address], '-b', '%x' % start, '-i', '00', '[vdso]')
        self.assertEqual(frames[0][0].function, '??')


class Names(Case):
    """Mangled names: meanings, and texts that would never end."""

    def test_meanings(self):
        with open(os.path.join(HERE, 'names.txt')) as f:
            pairs = [line.rstrip('\n').split('\t') for line in f if line.strip()]
        said = run(SYMBOLISE, '-D', text=''.join(p[0] + '\n' for p in pairs)).splitlines()
        self.assertEqual(said, [p[1] for p in pairs])

    @staticmethod
    def substitution(n):
        digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ'
        text = ''
        if n == 0:
            return 'S_'
        n -= 1
        while True:
            text = digits[n % 36] + text
            n //= 36
            if n == 0:
                return 'S' + text + '_'

    @staticmethod
    def d_distance(n):
        text = chr(ord('a') + n % 26)
        n //= 26
        while n:
            text = chr(ord('A') + n % 26) + text
            n //= 26
        return 'Q' + text

    @staticmethod
    def rust_position(n):
        digits = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
        if n == 0:
            return 'B_'
        text, n = '', n - 1
        while True:
            text = digits[n % 62] + text
            n //= 62
            if n == 0:
                return 'B' + text + '_'

    def bombs(self, n):
        s = self.substitution
        yield '_Z1f1AIiiE' + ''.join('%sI%s%sE' % (s(0), s(k), s(k)) for k in range(1, n))
        yield '_Z1f1AIJEJEE' + ''.join('%sIJ%s%sEE' % (s(0), s(k), s(k)) for k in range(1, n))
        for base in range(6):  # an empty pack hides the text, the search for packs still walks it
            yield ('_Z1fIJEEvDp1GIT_1AIiiE' +
                   ''.join('%sI%s%sE' % (s(base), s(k + 1), s(k + 1))
                           for k in range(base, base + n)) + 'EDp' + s(base + n))
        d, before = '_D1fFi', 5
        for _ in range(n):
            at = len(d)
            d += 'H'
            d += self.d_distance(len(d) - before)
            d += self.d_distance(len(d) - before)
            before = at
        yield d + 'Zv'
        rust = '_RINvC1a1f'
        before = len(rust) - 2
        rust += 'TllE'
        for _ in range(n):
            at = len(rust) - 2
            rust += 'T' + 2 * self.rust_position(before) + 'E'
            before = at
        yield rust + 'E'

    def test_bombs(self):
        """Meant for other bounds than time: without them these do not end, or take all memory."""
        for n in (3, 30, 60, 200):
            names = list(self.bombs(n))
            # The shell's limit ends what would run for ever, and take the machine's memory.
            # AddressSanitizer reserves more addresses than that; it has a limit of its own.
            with open(SYMBOLISE, 'rb') as program:
                sanitized = b'__asan_init' in program.read()
            said = run('sh', '-c', 'ulimit -t 60; %s exec "$0" -D'
                       % ('' if sanitized else 'ulimit -v 4000000;'),
                       SYMBOLISE, text='\n'.join(names) + '\n').splitlines()
            self.assertEqual(len(said), len(names))
            self.assertTrue(all(len(text) <= 256 * 1024 for text in said))
            if n == 3:  # small ones are names like any other
                self.assertGreater(sum(text != '?' for text in said), 5)
            else:
                self.assertEqual([text for text in said[:2] + said[-2:]], ['?'] * 4)

    def test_binders(self):
        """The number of lifetimes that a type is for is counted to, by the library that reads names: also
        where it makes no text, and where a back reference leads into the middle of an identifier."""
        hidden = 'XIC1aFGzzzzzzzzz_EuEuC1a'
        large = ['_RXYFGFD' + 'A' * 60 + '_', '_RXYFGzzzzzzzz_EuC1aC1b', '_RXIC1aFGzzzzzzzz_EuEuC1b',
                 '_RXIC1aDGzzzzzzzz_C1bEL_EuC1b', '_RIC%d%sB3_E' % (len(hidden), hidden)]
        small = ['_RXIC1aFG_EuEuC1b', '_RIC1aFG0_RL1_hEuE', '_RIC3abcB1_E']
        said = run('sh', '-c', 'ulimit -t 20; exec "$0" -D', SYMBOLISE,
                   text=''.join(n + '\n' for n in large + small)).splitlines()
        self.assertEqual(said, ['?'] * len(large) + ['<() as b>', "a::<for<'a, 'b> fn(&'a u8)>", '?'])

    def test_deep(self):
        for unit in ('P', 'N1aI', 'XL', '1aI', 'ps', 'F', 'Dp', 'DT', 'Z1a', 'T_', 'A_'):
            for size in (1000, 8000, 100000):
                for lead in ('_Z1f', '_Z', '_D1f', '_R', '_RNv'):
                    name = lead + unit * (size // len(unit)) + 'i'
                    run(SYMBOLISE, '-D', text=name + '\n')

    def test_damaged(self):
        run(FUZZ_NAMES, '-m', '11', '400', os.path.join(HERE, 'names.txt'))


class Damage(Case):
    """Damaged ELF files and perf maps: names or none, with the sanitizers watching."""

    def damage(self, *programs, count):
        done = subprocess.run([FUZZ_ELF, '-k', self.path('last'), '-m', '7', str(count),
                               *programs], capture_output=True, text=True, env=PLAIN)
        if done.returncode != 0:
            fd, kept = tempfile.mkstemp(prefix='mallow-symbol-damage-')
            os.close(fd)
            shutil.copy(self.path('last'), kept)
            self.fail('%s\n%s%s' % (kept, done.stdout, done.stderr))
        self.assertEqual(done.stdout.count(': %d' % count), len(programs))

    def test_whole_names_something(self):
        """What is damaged below has names to begin with."""
        frames, _ = symbolise(range(0, 0x4000, 61), self.compile())
        self.assertGreater(sum(f[0].function != '??' for f in frames), 10)

    def test_dwarf(self):
        self.damage(self.compile('five', '-gdwarf-5'), self.compile('four', '-gdwarf-4'),
                    self.compile('lto', '-flto'), self.compile('packed', '-gz'), count=400)

    def test_symbols(self):
        program = self.compile('names')
        run('strip', '-g', program)
        stripped = self.compile('stripped', '-rdynamic')
        run('strip', stripped)
        debug = self.path('debug')
        run('objcopy', '--only-keep-debug', self.compile('whole'), debug)
        self.damage(program, stripped, debug, count=400)

    def test_perf_map(self):
        place = self.path('map')
        with open(place, 'w') as f:
            for n in range(200):
                f.write('%x %x name %d\n' % (0x1000 + n * 64, 16 + n, n))
        self.damage(place, count=2000)
