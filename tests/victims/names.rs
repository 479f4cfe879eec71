// names.rs - memory that a Rust developer knows by the line that asked for it, through std.
// Truth: tests/truth/test_names.py finds the lines by the words behind "SITE".
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hint::black_box;
use std::io::Read;
use std::os::fd::FromRawFd;

#[derive(Clone)]
struct Row {
    text: String,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)?; // SITE fmt
        Ok(())
    }
}

impl From<Row> for String {
    #[inline(never)]
    fn from(row: Row) -> String {
        let mut s = String::with_capacity(70000); // SITE from
        s.push_str(&row.text);
        s
    }
}

trait Twice {
    fn twice(&self) -> String;
}

impl Twice for str {
    #[inline(never)]
    fn twice(&self) -> String {
        let s = self.repeat(2); // SITE twice
        black_box(s)
    }
}

#[inline(never)]
fn grow_vector(n: u64) -> Vec<u64> {
    let mut v = Vec::new();
    for i in 0..n {
        v.push(black_box(i)); // SITE vector
    }
    v
}

#[inline(never)]
fn fill_table(n: u32) -> HashMap<u32, u64> {
    let mut m = HashMap::new();
    for i in 0..n {
        m.insert(i, 1); // SITE table
    }
    m
}

#[inline(never)]
fn fill_tree(n: u32) -> BTreeMap<u32, u64> {
    let mut m = BTreeMap::new();
    for i in 0..n {
        m.insert(i, 1); // SITE tree
    }
    m
}

#[inline(never)]
fn collect_all(n: u64) -> Vec<u64> {
    black_box(0..n).collect() // SITE collect
}

#[inline(never)]
fn show(row: &Row) -> String {
    let s = row.to_string();
    black_box(s)
}

#[inline(never)]
fn boxed(n: u64) -> Box<[u64; 4000]> {
    Box::new(black_box([n; 4000])) // SITE boxed
}

fn main() {
    let row = Row { text: "x".repeat(20000) };
    let in_thread = std::thread::spawn(|| {
        let v = vec![1u8; 90000]; // SITE thread
        black_box(v).len()
    });
    let all = (
        grow_vector(10000),
        fill_table(1000),
        fill_tree(1000),
        collect_all(5000),
        show(&row),
        boxed(7),
        String::from(row.clone()),
        row.text.twice(),
    );
    std::mem::forget(black_box(all));
    println!("{}", in_thread.join().unwrap());
    if std::env::var_os("STAY").is_some() {
        let mut input = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(0) });
        input.read(&mut [0u8]).unwrap();
    }
}
