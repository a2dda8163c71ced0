//! load ADDRESS CONNECTIONS RATE PRINTS: sends each line of PRINTS that has a print to a server of `dedup-query --listen`, over so many connections, at RATE lines a second
//! in all, without waiting for answers, those of a millisecond together; RATE 0 is as fast as it goes. ADDRESS is unix:PATH or tcp:HOST:PORT.
//!
//! Prints requests a second, and the median, the 99th percentile and the maximum of the latency in ms. A latency counts from the instant at which a line was due, not from the
//! one at which it was sent: so a server that lets wait those who send is not the better for it.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// What becomes due in this time is sent together.
const TICK: Duration = Duration::from_millis(1);

trait Output: Write + Send {
    fn end(&self);
}

impl Output for UnixStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Output for TcpStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

fn connect(address: &str) -> (Box<dyn Read + Send>, Box<dyn Output>) {
    match address.split_once(':').expect("unix:PATH or tcp:HOST:PORT") {
        ("unix", path) => {
            let stream = UnixStream::connect(path).expect("a server");
            (Box::new(stream.try_clone().expect("a copy")), Box::new(stream))
        }
        (_, host) => {
            let stream = TcpStream::connect(host).expect("a server");
            stream.set_nodelay(true).expect("an option");
            (Box::new(stream.try_clone().expect("a copy")), Box::new(stream))
        }
    }
}

/// Sends lines, the first after `offset` and then one every `interval`; hands the instants at which they were due to whoever reads.
fn send(mut output: Box<dyn Output>, lines: &[&str], start: Instant, interval: Duration, offset: Duration, due: &mpsc::Sender<Instant>) {
    let (mut at, mut block) = (0, String::new());
    while at < lines.len() {
        block.clear();
        let now = start.elapsed();
        while at < lines.len() && block.len() < 1 << 15 {
            let planned = offset + interval * at as u32;
            if planned > now {
                break;
            }
            block += lines[at];
            block.push('\n');
            due.send(if interval.is_zero() { Instant::now() } else { start + planned }).expect("a reader");
            at += 1;
        }
        if block.is_empty() {
            thread::sleep((offset + interval * at as u32).saturating_sub(start.elapsed()).max(TICK));
        } else {
            output.write_all(block.as_bytes()).expect("a server that reads");
        }
    }
    output.end();
}

fn receive(input: Box<dyn Read + Send>, due: &mpsc::Receiver<Instant>) -> Vec<Duration> {
    let (mut input, mut line, mut took) = (BufReader::with_capacity(1 << 16, input), Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line).expect("answers") > 0 {
        assert!(line.starts_with(b"{\"doc\":"), "{}", String::from_utf8_lossy(&line));
        line.clear();
        took.push(due.recv().expect("a request for each answer").elapsed());
    }
    took
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let [_, address, connections, rate, prints] = &arguments[..] else { panic!("load ADDRESS CONNECTIONS RATE PRINTS") };
    let (connections, rate): (usize, f64) = (connections.parse().expect("a number"), rate.parse().expect("a number"));
    let text = fs::read_to_string(prints).expect("prints");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("\"print\":\"")).collect();
    let interval = if rate > 0.0 { Duration::from_secs_f64(connections as f64 / rate) } else { Duration::ZERO };
    let start = Instant::now() + Duration::from_millis(50);
    let mut took: Vec<Duration> = thread::scope(|scope| {
        let pieces = lines.chunks(lines.len().div_ceil(connections)).enumerate();
        let readers: Vec<_> = pieces
            .map(|(number, piece)| {
                let ((input, output), (sender, receiver)) = (connect(address), mpsc::channel());
                let offset = interval * number as u32 / connections as u32;
                scope.spawn(move || {
                    thread::sleep(start.saturating_duration_since(Instant::now()));
                    send(output, piece, start, interval, offset, &sender);
                });
                scope.spawn(move || receive(input, &receiver))
            })
            .collect();
        readers.into_iter().flat_map(|reader| reader.join().expect("a reader")).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(took.len(), lines.len(), "an answer for each request");
    took.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    println!("{:.0} {:.2} {:.2} {:.2}", took.len() as f64 / seconds, at(0.5), at(0.99), at(1.0));
}
