// serving.rs - an HTTP server for bench/attach.py: a thread a connection, strings, vectors and maps that live for a request, and
// panics that are caught: every ninth request. Usage: serving PORT
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn words_of(n: u32) -> BTreeMap<String, Vec<u32>> {
    let mut words: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for i in 0..40u32 {
        let word = format!("a word of request {} that lives on the heap, number {}", n, i % 29);
        words.entry(word).or_default().push(i.wrapping_mul(n));
        if n % 9 == 0 && i == 20 {
            std::panic::resume_unwind(Box::new(format!("request {} is refused", n)));
        }
    }
    words
}

fn answer(n: u32) -> String {
    match std::panic::catch_unwind(|| words_of(n)) {
        Ok(words) => {
            let mut sum = n;
            for (word, numbers) in &words {
                for byte in word.bytes() {
                    sum = sum.wrapping_mul(31).wrapping_add(byte as u32);
                }
                for number in numbers {
                    sum = sum.wrapping_mul(31).wrapping_add(*number);
                }
            }
            format!("{} {}", n, sum)
        }
        Err(why) => why.downcast_ref::<String>().cloned().unwrap_or_default(),
    }
}

fn serve(mut connection: TcpStream) -> std::io::Result<()> {
    let mut got: Vec<u8> = Vec::new();
    let mut bytes = [0u8; 4096];
    loop {
        let n = connection.read(&mut bytes)?;
        if n == 0 {
            return Ok(());
        }
        got.extend_from_slice(&bytes[..n]);
        while let Some(end) = got.windows(4).position(|w| w == b"\r\n\r\n") {
            let path = String::from_utf8_lossy(&got[5..end]).into_owned();
            let digits: String = path.chars().take_while(|c| c.is_ascii_digit()).collect();
            let body = answer(digits.parse().unwrap_or(0));
            let all = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.len(), body);
            connection.write_all(all.as_bytes())?;
            got.drain(..end + 4);
        }
    }
}

fn main() {
    let port = std::env::args().nth(1).and_then(|p| p.parse().ok()).unwrap_or(0u16);
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("bind");
    for connection in listener.incoming().flatten() {
        let _ = connection.set_nodelay(true);
        std::thread::spawn(move || serve(connection));
    }
}
