// victim_rust.rs - a Rust program that prints a return address of a function with a known name.
extern "C" {
    fn probe() -> i32;
}

mod shop {
    pub struct Till(pub i32);
    impl Till {
        #[inline(never)]
        pub fn add(&mut self, n: i32) -> i32 {
            self.0 += n + unsafe { crate::probe() }; // mark method
            self.0 * 2
        }
    }
}

fn main() {
    let mut till = shop::Till(1);
    std::process::exit(if till.add(3) == 12345 { 1 } else { 0 });
}
