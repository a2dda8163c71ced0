//! A cluster of three nats-servers on loopback.

use super::super::LogAddress;
use std::{
    env, fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A node that is not well for so long is started again.
const RESTARTED_AFTER: Duration = Duration::from_secs(30);

pub struct NatsNodes {
    program: PathBuf,
    directory: PathBuf,
    /// The ports of each for clients, nodes and monitors.
    ports: Vec<[u16; 3]>,
    children: Vec<Option<Child>>,
}

impl NatsNodes {
    /// Three nodes that are up to date; `None`, and a message, if there is no nats-server.
    pub fn start_all(directory: &Path) -> Option<Self> {
        let Some(program) = nats_server() else {
            eprintln!("no nats-server: skipped (scripts/dev/install-deps fetches it)");
            return None;
        };
        let free: Vec<TcpListener> = (0..9)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let ports: Vec<u16> = free
            .iter()
            .map(|of| of.local_addr().unwrap().port())
            .collect();
        drop(free);
        let mut nodes = Self {
            program,
            directory: directory.to_owned(),
            ports: ports.chunks(3).map(|of| [of[0], of[1], of[2]]).collect(),
            children: vec![None, None, None],
        };
        (0..3).for_each(|of| nodes.start(of));
        nodes.wait_until_healthy();
        Some(nodes)
    }

    pub fn address(&self, stream: &str) -> LogAddress {
        let nodes: Vec<String> = self
            .ports
            .iter()
            .map(|of| format!("127.0.0.1:{}", of[0]))
            .collect();
        format!("nats://{}/{stream}", nodes.join(","))
            .parse()
            .unwrap()
    }

    pub fn start(&mut self, of: usize) {
        let directory = self.directory.join(of.to_string());
        fs::create_dir_all(&directory).unwrap();
        let routes: Vec<String> = self
            .ports
            .iter()
            .map(|of| format!("nats-route://127.0.0.1:{}", of[1]))
            .collect();
        let [client, route, monitor] = self.ports[of];
        let config = format!(
            "server_name: n{of}\nlisten: 127.0.0.1:{client}\nhttp: 127.0.0.1:{monitor}\n\
             jetstream {{ store_dir: \"js\", max_memory_store: 64MB, max_file_store: 4GB }}\n\
             cluster {{ name: loop, listen: 127.0.0.1:{route}, routes: [ {} ] }}\n",
            routes.join(", ")
        );
        fs::write(directory.join("nats.conf"), config).unwrap();
        let child = Command::new(&self.program)
            .args(["-c", "nats.conf", "-l", "log"])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.children[of] = Some(child);
    }

    pub fn kill(&mut self, of: usize) {
        if let Some(mut child) = self.children[of].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn signal(&self, of: usize, signal: libc::c_int) {
        if let Some(child) = &self.children[of] {
            super::servers::signal(child, signal);
        }
    }

    /// Waits until every node says that it is up to date. One that does not get well is started again, as
    /// what supervises it would do: consumers of NATS 2.9 can stay "not current" for ever.
    pub fn wait_until_healthy(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        for of in 0..self.ports.len() {
            let [_, _, monitor] = self.ports[of];
            let mut started = Instant::now();
            while !is_healthy(monitor) {
                assert!(Instant::now() < deadline, "a node does not get well");
                if started.elapsed() > RESTARTED_AFTER {
                    self.kill(of);
                    self.start(of);
                    started = Instant::now();
                }
                thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

/// The program: in PATH, where Debian has it, or where scripts/dev/install-deps puts it.
fn nats_server() -> Option<PathBuf> {
    let target = env::current_exe().ok()?;
    let tools = target.ancestors().nth(3)?.join("tools/bin");
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), tools])
        .map(|directory| directory.join("nats-server"))
        .find(|program| program.exists())
}

fn is_healthy(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| {
        answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200")
    })
}

impl Drop for NatsNodes {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            super::servers::signal(child, libc::SIGCONT);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
