// rusty.rs - a Rust program with known leaks: names must come out demangled.
#[inline(never)]
fn leak_boxes(n: usize) {
    for i in 0..n {
        let b: Box<[u8; 1234]> = Box::new([i as u8; 1234]);
        std::mem::forget(std::hint::black_box(b));
    }
}

mod deep {
    pub struct Holder {
        pub data: Vec<u64>,
    }
    impl Holder {
        #[inline(never)]
        pub fn with_room(n: usize) -> Holder {
            Holder { data: Vec::with_capacity(n) }
        }
    }
}

fn main() {
    leak_boxes(9);
    let h = deep::Holder::with_room(5000);
    std::mem::forget(std::hint::black_box(h.data));
    let mut grows: Vec<u32> = Vec::new();
    for i in 0..10000 {
        grows.push(std::hint::black_box(i));
    }
    println!("{}", grows.len());
}
