//! Generates prints with the distribution of real ones, for scripts/bench/history:
//! `random_prints REAL COUNT SEED [COPIES [LOADED]]`.
//!
//! REAL is a stream of `dedup-blot --scheme minhash:256`. Each generated print takes about half of its bits
//! from one real print and the rest from another, so each bit is set as often as in the real ones,
//! correlated bits stay correlated, and hardly two prints are similar. A print depends on SEED and its
//! number only.
//!
//! One print in COPIES (default 10, 0 for none) is a copy with up to eight bits changed: of one of the
//! last 65,536 prints of this run or, with LOADED, every other time of one of the prints that
//! `random_prints REAL LOADED 1 0` generates, so that it may be in any file of a history filled with these.

use std::{env, fs, io::Write};

type Print = [u64; 4];

const RECENT: usize = 1 << 16;

struct Random(u64);

impl Random {
    /// The random numbers of one print, independent of those of its neighbours.
    fn of(seed: u64, number: u64) -> Self {
        let start = Self(seed.wrapping_mul(0xd6e8_feb8_6659_fd93)).next() ^ number;
        Self(Self(start).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn new_print(real: &[Print], random: &mut Random) -> Print {
    let [one, two] = [(); 2].map(|()| real[random.below(real.len())]);
    std::array::from_fn(|word| {
        let choice = random.next();
        one[word] & choice | two[word] & !choice
    })
}

/// The print to copy, if there is any.
fn original(real: &[Print], recent: &[Print], loaded: u64, random: &mut Random) -> Option<Print> {
    if loaded > 0 && random.next().is_multiple_of(2) {
        let number = random.next() % loaded;
        return Some(new_print(real, &mut Random::of(1, number)));
    }
    (!recent.is_empty()).then(|| recent[random.below(recent.len())])
}

fn read(text: &str) -> Vec<Print> {
    let hex = text
        .lines()
        .filter_map(|line| line.find("\"print\":\"").map(|at| &line[at + 9..at + 73]));
    hex.map(|hex| {
        std::array::from_fn(|word| {
            u64::from_str_radix(&hex[16 * word..16 * word + 16], 16).expect("hex")
        })
    })
    .collect()
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let [_, real, numbers @ ..] = &arguments[..] else {
        panic!("usage: random_prints REAL COUNT SEED [COPIES [LOADED]]")
    };
    let text = fs::read_to_string(real).expect("the real prints");
    let real = read(&text);
    let number_at = |at: usize, default: Option<u64>| {
        numbers
            .get(at)
            .map_or(default, |number| number.parse().ok())
            .expect("usage: random_prints REAL COUNT SEED [COPIES [LOADED]]")
    };
    let (count, seed, copies, loaded) = (
        number_at(0, None),
        number_at(1, None),
        number_at(2, Some(10)),
        number_at(3, Some(0)),
    );
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let mut put =
        |line: std::fmt::Arguments<'_>| out.write_fmt(line).is_ok() || std::process::exit(0);
    put(format_args!("{}\n", text.lines().next().expect("a header")));
    let mut recent: Vec<Print> = Vec::new();
    for number in 0..count {
        let mut random = Random::of(seed, number);
        let mut print = new_print(&real, &mut random);
        if copies > 0
            && random.next().is_multiple_of(copies)
            && let Some(copied) = original(&real, &recent, loaded, &mut random)
        {
            print = copied;
            (0..random.next() % 9).for_each(|_| print[random.below(4)] ^= 1 << random.below(64));
        }
        if recent.len() < RECENT {
            recent.push(print)
        } else {
            recent[number as usize % RECENT] = print
        }
        put(format_args!(
            "{{\"doc\":\"s{seed}-{number}\",\"tokens\":300,\"print\":\"{:016x}{:016x}{:016x}{:016x}\"}}\n",
            print[0], print[1], print[2], print[3]
        ));
    }
    put(format_args!("{{\"end\":{{\"records\":{count}}}}}\n"));
}
