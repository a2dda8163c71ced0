//! Sends prints to a history server at a fixed rate and measures latencies, for scripts/bench/service:
//! `service_load ADDRESS CONNECTIONS RATE PRINTS`.
//!
//! ADDRESS is unix:PATH or tcp:HOST:PORT. Each line of PRINTS with a print is a request; the
//! connections send RATE requests per second together, without waiting for answers, or as fast as they
//! can if RATE is 0. Prints requests per second, then median, 99th percentile and maximum of the
//! latency in ms. A latency counts from the time at which a request was due, not from the time at which
//! it was sent, so a server that delays its clients does not look better. One thread serves all
//! connections, since it shares two cores with the server. If LOAD_TRACE names a file, it gets a line for
//! each request: when it was due in s, and its latency in ms.

use std::{
    collections::VecDeque,
    env,
    fmt::Write as _,
    fs,
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::{
        fd::{AsRawFd, RawFd},
        unix::net::UnixStream,
    },
    ptr,
    time::{Duration, Instant},
};

/// How often requests are sent: all that are due by then.
const TICK: Duration = Duration::from_millis(1);
/// The most unsent bytes of a connection.
const MAX_UNSENT_BYTES: usize = 1 << 15;
const POLLIN: i16 = 1;
const POLLOUT: i16 = 4;

#[repr(C)]
struct Poll {
    fd: RawFd,
    events: i16,
    revents: i16,
}

#[repr(C)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn ppoll(fds: *mut Poll, count: u64, limit: *const Time, signals: *const u8) -> i32;
}

trait Stream: Read + Write + AsRawFd {
    fn end(&self);
}

impl Stream for UnixStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Stream for TcpStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

fn connect(address: &str) -> Box<dyn Stream> {
    match address.split_once(':').expect("unix:PATH or tcp:HOST:PORT") {
        ("unix", path) => {
            let stream = UnixStream::connect(path).expect("a server");
            stream.set_nonblocking(true).expect("an option");
            Box::new(stream)
        }
        (_, host) => {
            let stream = TcpStream::connect(host).expect("a server");
            stream
                .set_nodelay(true)
                .and_then(|()| stream.set_nonblocking(true))
                .expect("an option");
            Box::new(stream)
        }
    }
}

/// A connection: its first line is due after `offset`, and then one every `interval`.
struct Connection<'l> {
    stream: Box<dyn Stream>,
    lines: &'l [&'l str],
    next: usize,
    offset: Duration,
    interval: Duration,
    unsent: VecDeque<u8>,
    /// When the unanswered requests were due.
    due: VecDeque<Duration>,
    /// Bytes received of an incomplete answer.
    column: usize,
    has_ended: bool,
}

impl Connection<'_> {
    /// Sends the due requests, as far as the socket takes them; returns when the next request is due.
    fn send(&mut self, now: Duration) -> Option<Duration> {
        let mut later = None;
        while self.next < self.lines.len() && self.unsent.len() < MAX_UNSENT_BYTES {
            let planned = self.offset + self.interval * self.next as u32;
            if planned > now {
                later = Some(planned);
                break;
            }
            self.unsent.extend(self.lines[self.next].as_bytes());
            self.unsent.push_back(b'\n');
            self.due.push_back(if self.interval.is_zero() {
                now
            } else {
                planned
            });
            self.next += 1;
        }
        while !self.unsent.is_empty() {
            let bytes = self.unsent.make_contiguous();
            match self.stream.write(bytes) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("a server that reads: {error}"),
            }
        }
        if !self.has_ended && self.unsent.is_empty() && self.next == self.lines.len() {
            self.stream.end();
            self.has_ended = true;
        }
        later
    }

    /// Receives answers; returns false at the end of the stream.
    fn receive(
        &mut self,
        start: Instant,
        took: &mut Vec<(Duration, Duration)>,
        bytes: &mut [u8],
    ) -> bool {
        match self.stream.read(bytes) {
            Ok(0) => return false,
            Ok(count) => {
                let now = start.elapsed();
                for &byte in &bytes[..count] {
                    self.column += 1;
                    // `{"doc":…`, not `{"error":…`
                    assert!(
                        self.column != 3 || byte == b'd',
                        "{}",
                        String::from_utf8_lossy(&bytes[..count])
                    );
                    if byte == b'\n' {
                        let due = self.due.pop_front().expect("a request for each answer");
                        took.push((due, now.saturating_sub(due)));
                        self.column = 0;
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("answers: {error}"),
        }
        true
    }
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let [_, address, connections, rate, prints] = &arguments[..] else {
        panic!("usage: service_load ADDRESS CONNECTIONS RATE PRINTS")
    };
    let (connections, rate): (usize, f64) = (
        connections.parse().expect("a number"),
        rate.parse().expect("a number"),
    );
    let text = fs::read_to_string(prints).expect("prints");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("\"print\":\""))
        .collect();
    let interval = if rate > 0.0 {
        Duration::from_secs_f64(connections as f64 / rate)
    } else {
        Duration::ZERO
    };
    let connection = |(number, lines)| Connection {
        stream: connect(address),
        lines,
        next: 0,
        offset: interval * number as u32 / connections as u32,
        interval,
        unsent: VecDeque::new(),
        due: VecDeque::new(),
        column: 0,
        has_ended: false,
    };
    let mut open: Vec<Connection<'_>> = lines
        .chunks(lines.len().div_ceil(connections))
        .enumerate()
        .map(connection)
        .collect();
    let (mut took, mut bytes, mut tick) = (
        Vec::with_capacity(lines.len()),
        vec![0; 1 << 16],
        Duration::ZERO,
    );
    let start = Instant::now();
    while !open.is_empty() {
        let now = start.elapsed();
        if now >= tick {
            let next = open
                .iter_mut()
                .filter_map(|connection| connection.send(now))
                .min();
            tick = next.unwrap_or_default().max(now + TICK);
        }
        let events = |one: &Connection<'_>| {
            if one.unsent.is_empty() && !interval.is_zero() || one.has_ended {
                POLLIN
            } else {
                POLLIN | POLLOUT
            }
        };
        let mut entries: Vec<Poll> = open
            .iter()
            .map(|one| Poll {
                fd: one.stream.as_raw_fd(),
                events: events(one),
                revents: 0,
            })
            .collect();
        let limit = tick.saturating_sub(start.elapsed());
        let limit = Time {
            seconds: limit.as_secs() as i64,
            nanoseconds: i64::from(limit.subsec_nanos()),
        };
        // SAFETY: the pointer and length are those of `entries`, and all descriptors are open.
        unsafe {
            ppoll(
                entries.as_mut_ptr(),
                entries.len() as u64,
                &limit,
                ptr::null(),
            )
        };
        if entries.iter().any(|entry| entry.revents & POLLOUT != 0) {
            tick = Duration::ZERO;
        }
        let mut readable = entries.iter().map(|entry| entry.revents & !POLLOUT != 0);
        open.retain_mut(|one| {
            !readable.next().unwrap_or(false) || one.receive(start, &mut took, &mut bytes)
        });
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(took.len(), lines.len(), "an answer for each request");
    if let Ok(path) = env::var("LOAD_TRACE") {
        let mut out = String::new();
        took.iter().for_each(|(due, took)| {
            writeln!(
                out,
                "{:.6} {:.3}",
                due.as_secs_f64(),
                took.as_secs_f64() * 1000.0
            )
            .expect("memory")
        });
        fs::write(path, out).expect("a file for the trace");
    }
    let mut took: Vec<Duration> = took.into_iter().map(|(_, took)| took).collect();
    took.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    println!(
        "{:.0} {:.2} {:.2} {:.2}",
        took.len() as f64 / seconds,
        at(0.5),
        at(0.99),
        at(1.0)
    );
}
