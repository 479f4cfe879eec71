"""The programs that run.py runs, one entry each: what real work they do, and which Debian packages they need.

script is read by /bin/sh in an empty directory, with HOME there and LC_ALL=C.UTF-8, and ends by itself. Its output is the
same each time, but for what `varies` matches (regular expressions; a match is replaced by "~"). setup runs once before,
alone. A server gets a port of its own in $PORT, and the script ends it. `sample`: a part of make check."""

# A server in the foreground as a child of the script: `serve COMMAND...`, then `ready PORT`, requests, `ends`.
SERVER = r'''
serve() { setsid "$@" >server.out 2>&1 & server=$!; }
ready() { n=0; until bash -c "exec 3<>/dev/tcp/127.0.0.1/$1" 2>/dev/null; do n=$((n+1)); [ $n -lt 600 ] || { cat server.out; exit 9; }; sleep 0.1; done; }
ends() { kill -TERM $server; wait $server; echo "server: $?"; }
'''


class Program:
    def __init__(self, name, packages, script, setup="", varies=(), sample=False, server=False, skip=None):
        self.name, self.packages, self.setup = name, packages.split(), setup
        self.script = (SERVER if server else "") + script
        self.varies, self.sample, self.skip = list(varies), sample, skip or {}


def file(name, text):
    """A line of shell that writes a file."""
    return f"cat > {name} <<'END_OF_{name.upper().replace('.', '_')}'\n{text.strip()}\nEND_OF_{name.upper().replace('.', '_')}\n"


PROGRAMS = [
    # ---- interpreters that call C by themselves ----
    Program("python-ctypes", "python3-minimal", "/usr/bin/python3 x.py", file("x.py", r'''
import ctypes
c = ctypes.CDLL("libc.so.6")
c.strdup.restype = c.malloc.restype = c.realloc.restype = ctypes.c_void_p
c.free.argtypes = [ctypes.c_void_p]; c.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
total = 0
for i in range(3000):
    p = c.strdup(b"x" * (i % 700 + 900)); total += len(ctypes.string_at(p)); c.free(p)
    q = c.realloc(c.malloc(100 + i), 3000 + i); c.free(q)
print(total)
'''), sample=True),
    Program("python-cffi", "python3-cffi-backend python3-cffi", "/usr/bin/python3 x.py", file("x.py", r'''
import cffi
f = cffi.FFI(); f.cdef("char *strdup(const char *); void free(void *); void *calloc(size_t, size_t); size_t strlen(const char *);")
c = f.dlopen("libc.so.6"); n = 0
for i in range(3000):
    p = c.strdup(b"y" * (i % 900)); n += c.strlen(p); c.free(p); c.free(c.calloc(i % 50 + 1, 64))
print(n)
''')),
    Program("python-numpy", "python3-numpy", "/usr/bin/python3 -c 'import numpy as n; a = n.arange(250000.).reshape(500, 500); "
            "print(int((a @ a.T).trace()), n.linalg.matrix_rank(a), n.fft.fft(a[0]).shape)'"),
    Program("python-lxml", "python3-lxml", "/usr/bin/python3 -c 'from lxml import etree as e; d = e.fromstring(\"<a>\" + \"<b c=\\\"1\\\">x</b>\" * 5000 + \"</a>\"); "
            "print(len(d.xpath(\"//b\")), len(e.tostring(d)))'"),
    Program("python-threads", "python3-minimal", "/usr/bin/python3 x.py", file("x.py", r'''
import threading, json, hashlib, zlib
out = [None] * 8
def work(i):
    d = [{"k%d" % k: "v" * (k % 50) for k in range(200)} for _ in range(20)]
    out[i] = hashlib.sha256(zlib.compress(json.dumps(d).encode())).hexdigest()
t = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[x.start() for x in t]; [x.join() for x in t]
print(len(set(out)), out[0][:16])
''')),
    Program("ruby-fiddle", "ruby", "ruby x.rb", file("x.rb", r'''
require "fiddle"
l = Fiddle.dlopen("libc.so.6")
free = Fiddle::Function.new(l["free"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID)
dup = Fiddle::Function.new(l["strdup"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOIDP)
n = 0
3000.times { |i| p = dup.call("z" * (i % 900 + 800)); n += p.to_s.size; free.call(p) }
puts n
'''), sample=True),
    Program("ruby-objects", "ruby", "ruby -e 'h = {}; 40000.times { |i| h[\"k#{i}\"] = [i, i.to_s * 3] }; GC.start; puts h.size, h[\"k777\"].inspect, "
            "Marshal.load(Marshal.dump(h)).size'"),
    Program("luajit-ffi", "luajit", "luajit x.lua", file("x.lua", r'''
local ffi = require("ffi")
ffi.cdef[[char *strdup(const char *); void free(void *); void *malloc(size_t); size_t strlen(const char *);]]
local c, n = ffi.load("libc.so.6"), 0
for i = 1, 3000 do local p = c.strdup(string.rep("a", i % 700 + 900)); n = n + tonumber(c.strlen(p)); c.free(p); ffi.C.free(c.malloc(5000)) end
print(n)
'''), sample=True),
    Program("lua", "lua5.4", "lua5.4 -e 'local t = {} for i = 1, 50000 do t[i] = {i, tostring(i)} end print(#t, #table.concat({t[7][2], t[9][2]}))'"),
    Program("perl", "perl-base", "perl -e 'my %h; $h{$_ % 997} .= \"x\" x 20 for 1..50000; print scalar(keys %h), \" \", length(join \"\", values %h), \"\\n\"'"),
    Program("perl-ffi", "libffi-platypus-perl", "perl x.pl", file("x.pl", r'''
use FFI::Platypus 2.00;
my $f = FFI::Platypus->new(api => 2, lib => "libc.so.6");
my $dup = $f->function(strdup => ["string"] => "opaque"); my $free = $f->function(free => ["opaque"] => "void");
my $n = 0;
for (1..3000) { my $p = $dup->call("q" x ($_ % 900 + 500)); $n += length $f->cast(opaque => "string", $p); $free->call($p) }
print "$n\n";
''')),
    Program("perl-dbi", "libdbd-sqlite3-perl", "perl -MDBI -e 'my $d = DBI->connect(\"dbi:SQLite:dbname=:memory:\", \"\", \"\", {RaiseError => 1}); $d->do(\"create table t(a, b)\"); "
            "my $s = $d->prepare(\"insert into t values(?, ?)\"); $s->execute($_, \"v\" x ($_ % 90)) for 1..3000; print join(\" \", $d->selectrow_array(\"select count(*), sum(length(b)) from t\")), \"\\n\"'"),
    Program("guile", "guile-3.0", "guile --no-auto-compile x.scm", file("x.scm", r'''
(use-modules (system foreign) (rnrs bytevectors))
(define libc (dynamic-link))
(define c-free (pointer->procedure void (dynamic-func "free" libc) (list '*)))
(define c-malloc (pointer->procedure '* (dynamic-func "malloc" libc) (list size_t)))
(do ((i 0 (+ i 1))) ((= i 3000)) (c-free (c-malloc (+ 900 i))))
(display (length (map (lambda (i) (number->string i)) (iota 20000)))) (newline)
'''), sample=True),
    Program("php-modules", "php-cli php-curl php-xml php-mbstring php-gd php-sqlite3 php-intl php-bcmath php-zip php-soap php-gmp", "php x.php",
            file("x.php", r'''
<?php
$c = curl_init("file:///etc/hostname"); curl_setopt($c, CURLOPT_RETURNTRANSFER, true); echo strlen(curl_exec($c)) > 0, "\n"; curl_close($c);
$d = new DOMDocument(); $d->loadXML("<a>" . str_repeat("<b>x</b>", 2000) . "</a>"); echo $d->getElementsByTagName("b")->length, "\n";
echo mb_strtoupper(str_repeat("\u{e4}b", 3)), " ", bcadd("1.5", "2.75", 3), " ", gmp_strval(gmp_fact(40)), "\n";
$i = imagecreatetruecolor(200, 200); imagefilledellipse($i, 100, 100, 80, 80, 0xff0000); ob_start(); imagepng($i); echo strlen(ob_get_clean()) > 100, "\n";
$q = new SQLite3(":memory:"); $q->exec("create table t(a)"); for ($k = 0; $k < 500; $k++) $q->exec("insert into t values($k)"); echo $q->querySingle("select sum(a) from t"), "\n";
$f = new NumberFormatter("de_DE", NumberFormatter::DECIMAL); echo $f->format(1234567.5), "\n";
$z = new ZipArchive(); $z->open("a.zip", ZipArchive::CREATE); $z->addFromString("x", str_repeat("y", 9000)); $z->close(); echo filesize("a.zip") > 20, "\n"; unlink("a.zip");
$r = []; for ($k = 0; $k < 50000; $k++) $r["k$k"] = str_repeat("v", $k % 50); echo count($r), "\n";
'''), sample=True),
    Program("php-malloc", "php-cli", "USE_ZEND_ALLOC=0 php -r '$r = []; for ($k = 0; $k < 30000; $k++) $r[] = str_repeat(\"v\", $k % 500); echo count($r), \" \", strlen(serialize($r)), \"\\n\";'"),
    Program("node", "nodejs", "node -e 'const z = require(\"zlib\"), c = require(\"crypto\"); const b = Buffer.alloc(400000, \"abcdefg\"); "
            "console.log(z.gunzipSync(z.gzipSync(b)).length, c.createHash(\"sha256\").update(b).digest(\"hex\").slice(0, 16))'"),
    Program("node-addon", "nodejs node-iconv", "NODE_PATH=/usr/lib/x86_64-linux-gnu/nodejs:/usr/share/nodejs node -e 'const I = require(\"iconv\").Iconv; const i = new I(\"UTF-8\", \"UTF-16LE\"); "
            "let n = 0; for (let k = 0; k < 2000; k++) n += i.convert(\"text\".repeat(k % 50)).length; console.log(n)'"),
    Program("r", "r-base-core", "Rscript --vanilla -e 'set.seed(1); x <- matrix(runif(40000), 200); print(dim(solve(x))); l <- lapply(1:5000, function(i) rep(i, 20)); cat(sum(unlist(l)), \"\\n\")'"),
    Program("octave", "octave", "octave-cli --norc --eval 'a = magic(120); printf(\"%d %d\\n\", rank(a), sum(a(:))); c = cell(1, 3000); for i = 1:3000, c{i} = ones(1, 10) * i; end; printf(\"%d\\n\", sum(cellfun(@sum, c)))'"),
    Program("erlang", "erlang-base", "erl -noshell -eval 'L = lists:seq(1, 100000), io:format(\"~p ~p~n\", [lists:sum(L), length(binary_to_list(zlib:gzip(term_to_binary(L)))) > 10]), halt().'",
            sample=True),
    Program("erlang-version", "erlang-base", "erl -version 2>&1"),
    Program("elixir", "elixir", "elixir -e 'IO.puts(Enum.sum(Enum.map(1..50000, &(&1 * 2))))'"),
    Program("rabbitmqctl", "rabbitmq-server", "rabbitmqctl version"),
    Program("java-jna", "default-jdk-headless libjna-java", "java -Xmx200m -cp /usr/share/java/jna.jar:. X", setup=file("X.java", r'''
import com.sun.jna.*;
public class X {
    public static void main(String[] a) {
        NativeLibrary c = NativeLibrary.getInstance("c");
        Function free = c.getFunction("free"), malloc = c.getFunction("malloc"); long n = 0;
        for (int i = 0; i < 2000; i++) { Pointer p = malloc.invokePointer(new Object[]{1000L + i}); p.setByte(i, (byte) 7); n += p.getByte(i); free.invokeVoid(new Object[]{p}); }
        System.out.println(n);
    }
}
''') + "javac -cp /usr/share/java/jna.jar X.java"),
    Program("mono", "mono-runtime mono-mcs", "mono x.exe", setup=file("x.cs", r'''
using System; using System.Runtime.InteropServices; using System.Collections.Generic;
class X {
    [DllImport("libc.so.6")] static extern IntPtr malloc(IntPtr n); [DllImport("libc.so.6")] static extern void free(IntPtr p);
    static void Main() { for (int i = 0; i < 3000; i++) free(malloc((IntPtr) (1000 + i)));
        var l = new List<string>(); for (int i = 0; i < 30000; i++) l.Add("s" + i); Console.WriteLine(l.Count); }
}
''') + "mcs -out:x.exe x.cs"),
    Program("ocaml", "ocaml-nox", "ocaml x.ml && ./x", setup=file("x.ml", r'''
let () = let h = Hashtbl.create 10 in
  for i = 1 to 50000 do Hashtbl.replace h (i mod 5000) (String.make (i mod 100) 'x') done;
  Printf.printf "%d %d\n" (Hashtbl.length h) (Hashtbl.fold (fun _ v n -> n + String.length v) h 0)
''') + "ocamlopt -o x x.ml"),
    Program("haskell", "ghc", "./x", setup=file("x.hs", r'''
import qualified Data.Map as M
import Foreign.Marshal.Alloc
import Foreign.Storable
main = do
  r <- mapM (\i -> allocaBytes (1000 + i) (\p -> pokeByteOff p i (7 :: Int) >> (peekByteOff p i :: IO Int))) [1 .. 2000]
  q <- mallocBytes 5000 ; free q
  print (sum r, M.size (M.fromList [(show i, i) | i <- [1 .. 20000 :: Int]]))
''') + "ghc -O0 -o x x.hs >/dev/null"),
    Program("sbcl", "sbcl", "sbcl --script x.lisp", setup=file("x.lisp", r'''
(dotimes (i 2000) (sb-alien:free-alien (sb-alien:make-alien sb-alien:char (+ 900 i))))
(let ((h (make-hash-table :test 'equal))) (dotimes (i 30000) (setf (gethash (format nil "~d" i) h) i)) (format t "~d~%" (hash-table-count h)))
''')),
    Program("ada", "gnat", "./x", setup=file("x.adb", r'''
with Ada.Text_IO; with Ada.Containers.Vectors; with Ada.Unchecked_Deallocation;
procedure X is
   type A is array (Positive range <>) of Integer; type P is access A;
   procedure Free is new Ada.Unchecked_Deallocation (A, P);
   package V is new Ada.Containers.Vectors (Positive, Integer); L : V.Vector; Q : P;
begin
   for I in 1 .. 20000 loop L.Append (I); Q := new A (1 .. 100 + I mod 50); Q (1) := I; Free (Q); end loop;
   Ada.Text_IO.Put_Line (L.Length'Image);
end X;
''') + "gnatmake -q x.adb"),
    Program("fortran", "gfortran", "./x", setup=file("x.f90", r'''
program x
  integer :: i; real(8), allocatable :: a(:), b(:,:)
  do i = 1, 3000
    allocate(a(i)); a = i; if (allocated(b)) deallocate(b); allocate(b(30, i / 30 + 1)); b = sum(a); deallocate(a)
  end do
  print *, size(b)
end program
''') + "gfortran -o x x.f90"),
    Program("pascal", "fp-compiler", "./x", setup=file("x.pas", r'''
program x; uses cmem, sysutils, classes; var l: TStringList; i: integer; p: pointer;
begin l := TStringList.Create; for i := 1 to 20000 do begin l.Add(IntToStr(i)); GetMem(p, 500 + i mod 100); FreeMem(p) end; writeln(l.Count); l.Free end.
''') + "fpc -v0 x.pas >/dev/null"),
    Program("d", "ldc", "./x", setup=file("x.d", r'''
import std.stdio, std.conv, core.stdc.stdlib;
void main() { int[string] h; foreach (i; 0 .. 20000) { h[i.to!string] = i; auto p = malloc(1000 + i % 50); free(p); } writeln(h.length); }
''') + "ldc2 -of=x x.d"),
    Program("go-cgo", "golang-go gcc", "./x", setup=file("x.go", r'''
package main
// #include <stdlib.h>
// #include <string.h>
import "C"
import (
	"fmt"
	"unsafe"
)
func main() {
	n := 0
	for i := 0; i < 3000; i++ {
		p := C.CString("some text that is long enough")
		n += int(C.strlen(p))
		C.free(unsafe.Pointer(p))
		C.free(C.malloc(C.size_t(900 + i)))
	}
	fmt.Println(n)
}
''') + "go build -o x x.go"),
    Program("rust", "rustc", "./x", setup=file("x.rs", r'''
use std::collections::HashMap;
fn main() { let mut h = HashMap::new(); for i in 0..30000 { h.insert(i.to_string(), vec![i; 20]); }
    let t: Vec<_> = (0..4).map(|k| std::thread::spawn(move || (0..5000).map(|i| format!("{}{}", i, k)).collect::<Vec<_>>().len())).collect();
    println!("{} {}", h.len(), t.into_iter().map(|x| x.join().unwrap()).sum::<usize>()); }
''') + "rustc -O -o x x.rs"),
    Program("tcl", "tcl", "echo 'for {set i 0} {$i < 20000} {incr i} {dict set d k$i [string repeat x [expr {$i % 40}]]}; puts [dict size $d]' | tclsh"),
    Program("prolog", "swi-prolog-nox", "swipl -q -g 'numlist(1, 50000, L), sum_list(L, S), print(S), nl, atom_length(abc, N), print(N), nl, halt.'"),
    Program("gawk", "gawk", "seq 1 50000 | gawk '{a[$1 % 999] = a[$1 % 999] $1} END {n = 0; for (k in a) n += length(a[k]); print n}'"),
    Program("gap", "pari-gp", "echo 'print(factor(2^97-1)); print(#primes([1,20000]))' | gp -q -f"),
    Program("bc", "bc", "echo 'scale=300; a(1)*4; 2^1000' | bc -l | tail -c 200"),
    Program("m4", "m4", "seq 1 3000 | sed 's/.*/define(`a&'\\'',`b'\\'')a&/' | m4 | tail -n 1"),
    Program("cobol", "gnucobol3", "./x", setup=file("x.cob", r'''
       IDENTIFICATION DIVISION.
       PROGRAM-ID. X.
       DATA DIVISION.
       WORKING-STORAGE SECTION.
       01 N PIC 9(8) VALUE 0.
       PROCEDURE DIVISION.
           PERFORM 5000 TIMES ADD 3 TO N END-PERFORM.
           DISPLAY N.
           STOP RUN.
''') + "cobc -x -free -o x x.cob"),
    # ---- servers ----
    Program("nginx", "nginx-light curl", r'''
mkdir -p l; printf 'daemon off; pid n.pid; error_log stderr; worker_processes 2; events {} http { access_log off; client_body_temp_path l; proxy_temp_path l; fastcgi_temp_path l; uwsgi_temp_path l; scgi_temp_path l; server { listen 127.0.0.1:%s; root %s; autoindex on; } }' $PORT $PWD > n.conf
seq 1 3000 > index.txt; serve nginx -p $PWD -c n.conf; ready $PORT; for i in 1 2 3 4 5; do curl -s http://127.0.0.1:$PORT/index.txt | md5sum; done; curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:$PORT/none; ends
''', server=True),
    Program("apache-php", "apache2-bin libapache2-mod-php8.2 curl", r'''
printf 'ServerRoot /usr/lib/apache2\nServerName x\nPidFile %s/a.pid\nListen 127.0.0.1:%s\nLoadModule mpm_prefork_module modules/mod_mpm_prefork.so\nLoadModule authz_core_module modules/mod_authz_core.so\nLoadModule dir_module modules/mod_dir.so\nLoadModule mime_module modules/mod_mime.so\nTypesConfig /etc/mime.types\nLoadModule php_module modules/libphp8.2.so\nAddType application/x-httpd-php .php\nDocumentRoot %s/w\nErrorLog %s/e.log\nUser www-data\nGroup www-data\nStartServers 2\n' $PWD $PORT $PWD $PWD > a.conf
mkdir -p w; chmod 755 . w; echo '<?php $a = []; for ($i = 0; $i < 5000; $i++) $a[] = str_repeat("x", $i % 99); echo count($a), md5(join("", $a));' > w/x.php
serve apache2 -DFOREGROUND -f $PWD/a.conf; ready $PORT; for i in 1 2 3; do curl -s http://127.0.0.1:$PORT/x.php; echo; done; ends
''', server=True),
    Program("php-fpm", "php-fpm libfcgi-bin", r'''
printf '[global]\nerror_log = %s/e.log\ndaemonize = no\n[w]\nuser = www-data\ngroup = www-data\nlisten = 127.0.0.1:%s\npm = static\npm.max_children = 2\n' $PWD $PORT > f.conf; echo '<?php echo array_sum(range(1, 1000)), "\n";' > x.php; chmod 755 .
serve php-fpm8.2 -F -y f.conf; ready $PORT; for i in 1 2 3; do SCRIPT_FILENAME=$PWD/x.php REQUEST_METHOD=GET cgi-fcgi -bind -connect 127.0.0.1:$PORT | tail -n 1; done; ends
''', server=True),
    Program("postgres", "postgresql postgresql-client", r'''
B=/usr/lib/postgresql/15/bin; cd db; chown -R postgres . ; run() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
serve setpriv --reuid postgres --regid postgres --clear-groups $B/postgres -D data -k $PWD -p $PORT -c listen_addresses=127.0.0.1 -c fsync=off -c log_min_messages=fatal -c autovacuum=off
ready $PORT; until run psql -h 127.0.0.1 -p $PORT -Atc 'select 1' postgres >/dev/null 2>&1; do sleep 0.2; done
run psql -h 127.0.0.1 -p $PORT -At postgres -c 'create temp table t as select g a, md5(g::text) b from generate_series(1, 20000) g; select count(*), sum(a), count(distinct b) from t; select max(length(string_agg)) from (select string_agg(b, chr(44)) from t group by a % 7) s'
kill -INT $server; wait $server; echo "server: $?"
''', setup="mkdir -p db; chmod 755 . db; chown postgres db; rm -rf db/data; setpriv --reuid postgres --regid postgres --clear-groups /usr/lib/postgresql/15/bin/initdb -D db/data -A trust --no-sync >/dev/null 2>&1",
            server=True),
    Program("redis", "redis-server redis-tools", r'''
serve redis-server --port $PORT --bind 127.0.0.1 --save '' --daemonize no --dir $PWD; ready $PORT
for i in 1 2 3; do redis-cli -p $PORT eval 'for i = 1, 20000 do redis.call("set", KEYS[1] .. i, string.rep("v", i % 200)) end return redis.call("dbsize")' 1 k; done; redis-cli -p $PORT get k77 | wc -c; redis-cli -p $PORT flushall; ends
''', server=True),
    Program("memcached", "memcached netcat-openbsd", r'''
serve memcached -u nobody -p $PORT -l 127.0.0.1 -m 32; ready $PORT; for i in 1 2 3; do printf 'set k%s 0 0 5\r\nhello\r\nget k%s\r\nquit\r\n' $i $i | nc 127.0.0.1 $PORT; done; ends
''', server=True),
    Program("haproxy", "haproxy curl", r'''
printf 'defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\nfrontend f\n bind 127.0.0.1:%s\n http-request return status 200 content-type text/plain string hello\n' $PORT > h.cfg
serve haproxy -f h.cfg; ready $PORT; for i in 1 2 3; do curl -s http://127.0.0.1:$PORT/; echo; done; kill -USR1 $server; wait $server; echo "server: $?"
''', server=True),
    Program("named", "bind9 bind9-dnsutils", r'''
printf 'options { directory "%s"; listen-on port %s { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; pid-file none; session-keyfile "%s/k"; managed-keys-directory "%s"; };\ncontrols { };\nzone "x.test" { type master; file "%s/z"; };\n' $PWD $PORT $PWD $PWD $PWD > n.conf
printf '$TTL 60\n@ IN SOA ns h 1 60 60 60 60\n IN NS ns\nns IN A 127.0.0.1\n' > z; i=0; while [ $i -lt 500 ]; do echo "h$i IN A 10.0.1.$((i%%250))"; i=$((i+1)); done | sed 's/%%/%/' >> z
serve named -g -c n.conf -n 2; ready $PORT; for i in 1 7 400; do dig +short +tcp @127.0.0.1 -p $PORT h$i.x.test; done; ends
''', server=True),
    Program("unbound", "unbound bind9-dnsutils", r'''
printf 'server:\n interface: 127.0.0.1@%s\n do-daemonize: no\n username: ""\n chroot: ""\n directory: "%s"\n pidfile: ""\n use-syslog: no\n module-config: "iterator"\n local-zone: "x.test." static\n local-data: "a.x.test. A 10.1.2.3"\nremote-control:\n control-enable: no\n' $PORT $PWD > u.conf
serve unbound -d -c u.conf; ready $PORT; for i in 1 2 3; do dig +short +tcp @127.0.0.1 -p $PORT a.x.test; done; ends
''', server=True),
    Program("mosquitto", "mosquitto mosquitto-clients", r'''
printf 'listener %s 127.0.0.1\nallow_anonymous true\n' $PORT > m.conf; serve mosquitto -c m.conf; ready $PORT
mosquitto_pub -p $PORT -t a -m kept -r; mosquitto_sub -p $PORT -t a -C 1; ends
''', server=True),
    Program("slapd", "slapd ldap-utils", r'''
printf 'include /etc/ldap/schema/core.schema\nmoduleload back_mdb\nmodulepath /usr/lib/ldap\ndatabase mdb\nsuffix "dc=x"\ndirectory %s/d\nrootdn "cn=a,dc=x"\nrootpw s\n' $PWD > s.conf; rm -rf d; mkdir d
serve /usr/sbin/slapd -f s.conf -h ldap://127.0.0.1:$PORT -d 0; ready $PORT
printf 'dn: dc=x\nobjectClass: dcObject\nobjectClass: organization\no: x\n\ndn: ou=p,dc=x\nobjectClass: organizationalUnit\n' | ldapadd -x -H ldap://127.0.0.1:$PORT -D cn=a,dc=x -w s >/dev/null; ldapsearch -x -LLL -H ldap://127.0.0.1:$PORT -b dc=x ou; ends
''', server=True),
    Program("squid", "squid curl", r'''
printf 'http_port 127.0.0.1:%s\nhttp_access allow all\ncache deny all\naccess_log none\ncache_log %s/c.log\npid_filename %s/s.pid\ncoredump_dir %s\ncache_mem 8 MB\nnetdb_filename none\nlogfile_rotate 0\nshutdown_lifetime 0 seconds\ncache_effective_user proxy\n' $PORT $PWD $PWD $PWD > s.conf; chmod 777 .
serve squid -N -f s.conf; ready $PORT; curl -s -o /dev/null -w '%{http_code}\n' -x http://127.0.0.1:$PORT http://127.0.0.1:1/; ends
''', server=True),
    Program("lighttpd", "lighttpd curl", r'''
printf 'server.document-root = "%s"\nserver.port = %s\nserver.bind = "127.0.0.1"\nmimetype.assign = (".txt" => "text/plain")\n' $PWD $PORT > l.conf; seq 1 500 > a.txt
serve lighttpd -D -f l.conf; ready $PORT; curl -s http://127.0.0.1:$PORT/a.txt | md5sum; ends
''', server=True),
    # ---- tools ----
    Program("git", "git", r'''
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
rm -rf r; git init -q -b m r; cd r; for i in 1 2 3 4 5 6; do seq $i 400 > f$i; git add .; git commit -qm "c $i"; done; git log --stat --oneline; git gc -q; git fsck --no-progress; git blame f3 | tail -n 1; git diff HEAD~3 | md5sum
'''),
    Program("gcc", "gcc libc6-dev", r'''seq 1 300 | sed 's/.*/int f&(int a){int s=0;for(int i=0;i<a;i++)s+=i*&;return s;}/' > x.c; gcc -O2 -S -o - x.c | md5sum; echo 'int main(){return 3;}' > y.c; gcc -O1 -o y y.c; ./y; echo $?'''),
    Program("gxx", "g++", r'''printf '#include <map>\n#include <string>\n#include <iostream>\nint main(){std::map<std::string,int> m;for(int i=0;i<9999;i++)m[std::to_string(i)]=i;std::cout<<m.size()<<std::endl;}' > x.cc; g++ -O1 -o x x.cc && ./x'''),
    Program("clang", "clang-14", r'''seq 1 200 | sed 's/.*/int f&(int a){int s=0;for(int i=0;i<a;i++)s+=i*&;return s;}/' > x.c; clang-14 -O2 -S -o - x.c | md5sum; clang-14 --analyze -Xanalyzer -analyzer-output=text x.c; echo $?'''),
    Program("gdb", "gdb gcc libc6-dev", "gdb -nx -q -batch -ex 'break f' -ex run -ex bt -ex 'p a*2' ./x", setup="printf 'int f(int a){return a+1;}\\nint main(){return f(41)-42;}\\n' > x.c; gcc -g -O0 -o x x.c",
            varies=[r"0x[0-9a-f]+", r"\[Inferior 1 \(process \d+\)", r"process \d+", r"warning: Error disabling address space.*", r"\[Thread debugging.*\]", r"Using host libthread_db.*"]),
    Program("valgrind", "valgrind libc6-dbg", "valgrind -q --error-exitcode=3 ls / >/dev/null; echo $?"),
    Program("qemu-user", "qemu-user gcc libc6-dev", "qemu-x86_64 ./x", setup="printf '#include <stdio.h>\\n#include <stdlib.h>\\nint main(){long s=0;for(int i=0;i<3000;i++){char*p=malloc(i+1);p[0]=i;s+=p[0]&1;free(p);}printf(\"%%ld\\\\n\",s);}\\n' > x.c; gcc -static -O1 -o x x.c"),
    Program("binutils", "binutils", "objdump -d /bin/true | md5sum; readelf -aW /bin/ls | md5sum; nm -D /bin/ls | wc -l; strings /bin/ls | wc -l"),
    Program("ffmpeg", "ffmpeg", "ffmpeg -nostdin -hide_banner -loglevel error -f lavfi -i testsrc=d=1:s=160x120:r=10 -f lavfi -i sine=d=1 -threads 2 -c:v mpeg4 -c:a aac -flags +bitexact -fflags +bitexact -y o.mp4; ffprobe -v error -show_entries stream=codec_name,nb_frames -of csv o.mp4"),
    Program("imagemagick", "imagemagick", "convert -size 200x200 plasma:fractal -seed 3 -blur 0x2 -rotate 30 x.png; identify -format '%w %h %m\\n' x.png; convert rose: -resize 300% -colors 64 y.gif; identify -format '%w %h\\n' y.gif"),
    Program("graphviz", "graphviz", "seq 1 60 | sed 's/.*/a& -> b&; b& -> a1;/' | (echo 'digraph g {'; cat; echo '}') | dot -Tplain | md5sum"),
    Program("gnuplot", "gnuplot-nox", "gnuplot -e \"set term dumb; plot [0:10] sin(x), cos(x)\""),
    Program("sox", "sox", "sox -n -r 16000 -b 16 a.wav synth 1 sine 440 reverb -D 2>&1; sox a.wav -n stat 2>&1 | head -n 3"),
    Program("flac", "flac", "head -c 400000 /dev/zero | flac -s --force-raw-format --endian=little --sign=signed --channels=2 --bps=16 --sample-rate=44100 -o a.flac -f -; flac -s -d -c --force-raw-format --endian=little --sign=signed a.flac | md5sum"),
    Program("rsync", "rsync", "rm -rf a b; mkdir a; for i in 1 2 3 4 5 6 7 8; do seq $i 999 > a/f$i; done; rsync -rc a/ b/; rm a/f3; rsync -rci --delete a/ b/; diff -r a b && echo same"),
    Program("tar", "tar gzip", "rm -rf a; mkdir a; for i in 1 2 3 4; do seq $i 2999 > a/f$i; done; tar --sort=name --mtime=@0 --owner=0 --group=0 -cf x.tar a; md5sum x.tar; gzip -nf x.tar; tar tzf x.tar.gz"),
    Program("sqlite", "sqlite3", "sqlite3 :memory: \"create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 30000) insert into t select x, hex(x * 7) from c; create index i on t(b); select count(*), max(b), sum(length(b)) from t; select count(*) from t a join t b on a.b = b.b;\""),
    Program("xz", "xz-utils", "seq 1 60000 | xz -T2 -6 | xz -d | md5sum"),
    Program("zstd", "zstd", "seq 1 90000 | zstd -q -T2 -12 | zstd -q -d | md5sum"),
    Program("bzip2", "bzip2", "seq 1 60000 | bzip2 | bzip2 -d | md5sum"),
    Program("7zip", "p7zip-full", "seq 1 9000 > a.txt; rm -f a.7z; 7z a -bso0 -bsp0 a.7z a.txt; 7z x -so a.7z | md5sum"),
    Program("jq", "jq", "seq 1 20000 | jq -s 'map({a: ., b: tostring}) | group_by(.a % 7) | map(length)' -c"),
    Program("curl", "curl", "seq 1 9999 > f; curl -s file://$PWD/f | md5sum; curl -sS http://127.0.0.1:1/ 2>&1; echo $?", varies=[r"after \d+ ms"]),
    Program("openssl", "openssl", "seq 1 9999 | openssl dgst -sha3-256; openssl genrsa -out k.pem 1024 2>/dev/null; openssl rsa -in k.pem -check -noout 2>&1 | tail -n 1; openssl req -x509 -key k.pem -subj /CN=x -days 1 -out c.pem; openssl verify -CAfile c.pem c.pem"),
    Program("gpg", "gpg gpg-agent", "export GNUPGHOME=$PWD/g; rm -rf g; mkdir -m 700 g; gpg --batch --quiet --passphrase '' --quick-gen-key x rsa1024 sign never 2>/dev/null; echo text | gpg --batch --quiet --clearsign | grep -c BEGIN; gpg --list-keys --with-colons | grep -c ^pub; gpgconf --kill gpg-agent"),
    Program("vim", "vim", "seq 1 3000 > f; vim -u NONE -es -c '%s/1/one/g' -c 'g/2/m0' -c 'normal Gdd' -c 'w! o' -c 'q!' f; md5sum o"),
    Program("emacs", "emacs-nox", "emacs -Q --batch --eval '(progn (dotimes (i 20000) (insert (format \"%d \" i))) (goto-char 1) (let ((n 0)) (while (search-forward \"77\" nil t) (setq n (1+ n))) (princ (format \"%d %d\\n\" n (buffer-size)))))'"),
    Program("libreoffice", "libreoffice-writer-nogui unzip", "printf 'one\\ntwo\\n' > a.txt; soffice -env:UserInstallation=file://$PWD/p --headless --convert-to odt a.txt >/dev/null 2>&1; unzip -p a.odt content.xml | grep -c two"),
    Program("chromium", "chromium", "chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync --user-data-dir=$PWD/u --dump-dom 'data:text/html,<p id=a></p><script>a.textContent=[...Array(5000).keys()].reduce((x,y)=>x+y)</script>' 2>/dev/null; echo $?"),
    Program("make", "make", "printf 'all:%s\\n\\t@echo done\\n' \"$(seq 1 300 | sed 's/.*/ t&/' | tr -d '\\n')\" > Makefile; seq 1 300 | sed 's/.*/t&:;@:/' >> Makefile; make -j3 -s"),
    Program("cmake", "cmake make gcc libc6-dev", "printf 'cmake_minimum_required(VERSION 3.18)\\nproject(x C)\\nadd_executable(x x.c)\\n' > CMakeLists.txt; echo 'int main(){return 0;}' > x.c; rm -rf b; cmake -S . -B b >/dev/null && cmake --build b 2>&1 | tail -n 1"),
    Program("ninja", "ninja-build", "(echo 'rule t'; echo ' command = touch $out'; seq 1 100 | sed 's/.*/build o&: t/') > build.ninja; rm -f o*; ninja -j1 | tail -n 1; ninja"),
    Program("bison-flex", "bison flex", "printf '%%%%token A\\n%%%%%%%%\\ns: | s A;\\n%%%%%%%%\\n' > x.y; bison --report=none -o x.c x.y; grep -c yyparse x.c; printf '%%%%%%%%\\na+ return 1;\\n[0-9]+ return 2;\\n' > x.l; flex -o y.c x.l; grep -c yylex y.c"),
    Program("groff", "groff-base", "seq 1 400 | sed 's/^/.PP\\nparagraph /' | groff -ms -Tutf8 | md5sum"),
    Program("man", "man-db", "man --no-hyphenation -P cat ls | wc -l; mandb --version | head -n 1"),
    Program("pandoc", "pandoc", "seq 1 200 | sed 's/.*/# h&\\n\\ntext *x* `y`\\n/' | pandoc -f markdown -t html | md5sum"),
    Program("ghostscript", "ghostscript", "printf '%%!PS\\n1 1 40 { 10 mul dup 20 moveto 300 lineto stroke } for showpage\\n' > a.ps; gs -q -dNOPAUSE -dBATCH -sDEVICE=pnggray -r36 -sOutputFile=a.png a.ps; md5sum < a.png"),
    Program("poppler", "poppler-utils ghostscript", "printf '%%!PS\\n/Courier findfont 12 scalefont setfont 72 700 moveto (words in it) show showpage\\n' | gs -q -dNOPAUSE -dBATCH -sDEVICE=pdfwrite -sOutputFile=a.pdf -; pdftotext a.pdf - | head -n 1; pdftoppm -r 20 -png a.pdf p; ls p*"),
    Program("doxygen", "doxygen", "printf '/** A. */\\nint f(int a);\\n/** B. */\\nstruct s { int x; };\\n' > a.h; printf 'INPUT=a.h\\nQUIET=YES\\nGENERATE_LATEX=NO\\nWARNINGS=NO\\nHAVE_DOT=NO\\n' | doxygen - >/dev/null 2>&1; ls html | wc -l"),
    Program("nasm", "nasm", "(echo 'section .text'; seq 1 3000 | sed 's/.*/l&: mov eax, &/') > a.asm; nasm -f elf64 -o a.o a.asm; md5sum < a.o"),
    Program("tcc", "tcc libc6-dev", "printf '#include <stdio.h>\\nint main(){for(int i=0;i<5;i++)printf(\"%%d\\\\n\",i*i);}\\n' > a.c; tcc -run a.c"),
    Program("bash", "bash", "bash -c 'declare -A h; for i in {1..5000}; do h[$i]=$((i*i)); done; echo ${#h[@]} ${h[77]}; s=; for i in {1..2000}; do s+=x; done; echo ${#s}; (exit 5); echo $?'"),
    Program("zsh", "zsh", "zsh -f -c 'typeset -A h; for i in {1..5000}; do h[$i]=$((i*i)); done; echo ${#h} $h[77]; print -l ${(on)${(k)h}} | tail -n 1'"),
    Program("file", "file", "file -b /bin/ls | cut -c1-30; file -b --mime-type /etc/passwd /bin/sh"),
    Program("lynx", "lynx", "(echo '<html><body>'; seq 1 300 | sed 's/.*/<p>p &<a href=x>l<\\/a>/') > a.html; lynx -dump a.html | md5sum"),
    Program("w3m", "w3m", "(echo '<table>'; seq 1 300 | sed 's/.*/<tr><td>&<td>x/') > a.html; w3m -dump a.html | md5sum"),
    Program("xmllint", "libxml2-utils xsltproc", "(echo '<a>'; seq 1 5000 | sed 's/.*/<b>&<\\/b>/'; echo '</a>') > a.xml; xmllint --xpath 'sum(//b)' a.xml; xmllint --c14n a.xml | md5sum"),
    Program("coreutils", "coreutils", "seq 1 50000 | sort -R --random-source=/bin/ls | sort -n | md5sum; seq 1 99999 | tac | head -n 1; factor 1000000007000000063; echo /etc/p* | tr ' ' '\\n' | wc -l; ls --nonsense; echo $?"),
    Program("findutils", "findutils", "mkdir -p a/b/c; touch a/1 a/b/2; find a | sort; find a -type f | xargs -P2 -n1 basename | sort"),
    Program("openssh-keygen", "openssh-client", "rm -f k k.pub; ssh-keygen -q -t ed25519 -N '' -C x -f k; ssh-keygen -l -f k | cut -d' ' -f1,3,4; ssh -V 2>&1 | cut -c1-8"),
    Program("dbus", "dbus", "dbus-run-session -- sh -c 'dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames | grep -c string 2>/dev/null' 2>/dev/null"),
]
