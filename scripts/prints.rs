//! prints REAL COUNT SEED [COPIES]: NDJSON of COUNT prints that follow the distribution of REAL, a stream that `dedup-blot --scheme minhash:256` made.
//!
//! Each takes about half of its bits from one real print and the others from a second: so each bit is as often set as in the real ones, bits that hang
//! together still do, and hardly two are alike. One in COPIES (10) is an earlier one of the same run with up to eight bits changed.

use std::{env, fs, io::Write};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let [_, real, count, seed, rest @ ..] = &arguments[..] else { panic!("prints REAL COUNT SEED [COPIES]") };
    let text = fs::read_to_string(real).expect("the real prints");
    let mut prints: Vec<[u64; 4]> = Vec::new();
    for line in text.lines() {
        let Some(at) = line.find("\"print\":\"") else { continue };
        let hex = &line[at + 9..at + 73];
        prints.push(std::array::from_fn(|word| u64::from_str_radix(&hex[16 * word..16 * word + 16], 16).expect("hex")));
    }
    let header = text.lines().next().expect("a header");
    let (count, seed): (u64, u64) = (count.parse().expect("a number"), seed.parse().expect("a number"));
    let copies: u64 = rest.first().map_or(10, |copies| copies.parse().expect("a number"));
    let (mut random, mut out) = (Random(seed), std::io::BufWriter::with_capacity(1 << 20, std::io::stdout().lock()));
    let mut recent: Vec<[u64; 4]> = Vec::new();
    let mut put = |line: std::fmt::Arguments<'_>| out.write_fmt(line).is_ok() || std::process::exit(0);
    put(format_args!("{header}\n"));
    for number in 0..count {
        let [one, two] = [(); 2].map(|()| prints[random.next() as usize % prints.len()]);
        let mut print: [u64; 4] = std::array::from_fn(|word| {
            let choice = random.next();
            one[word] & choice | two[word] & !choice
        });
        if copies > 0 && random.next() % copies == 0 && !recent.is_empty() {
            print = recent[random.next() as usize % recent.len()];
            (0..random.next() % 9).for_each(|_| print[random.next() as usize % 4] ^= 1 << (random.next() % 64));
        }
        if recent.len() < 1 << 16 { recent.push(print) } else { recent[number as usize % (1 << 16)] = print }
        put(format_args!("{{\"doc\":\"s{seed}-{number}\",\"tokens\":300,\"print\":\"{:016x}{:016x}{:016x}{:016x}\"}}\n", print[0], print[1], print[2], print[3]));
    }
    put(format_args!("{{\"end\":{{\"records\":{count}}}}}\n"));
}
