//! The program itself to a host that does not have it.

use super::transfer::sum_of;
use crate::{base::error::Result, cluster::remote::Transport};
use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

/// `$1`: the directory of the host, or nothing; `$2`: the name of the program's directory; `$3`: its bytes; `$4`: its checksum, which it looks at itself.
/// It appears when it is whole. One that is there and is not is replaced.
const SCRIPT: &str = "set -eu; umask 077
d=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/dedup-shard}; case $d in '~/'*) d=$HOME/${d#'~/'};; esac
p=$d/bin/$2/dedup-shard
is_whole() { [ -x \"$1\" ] && [ \"$(\"$1\" worker --self=\"$2\" --check 2> /dev/null < /dev/null)\" = \"$2\" ]; }
if is_whole \"$p\" \"$4\"; then touch -c \"$p\"; printf 'dedup-shard-ship have %s\\n' \"$p\"; exit; fi
mkdir -p \"$d/bin/$2\"
trap 'rm -f \"$p.$$\"' EXIT; trap 'exit 1' HUP INT PIPE TERM
printf 'dedup-shard-ship want %s\\n' \"$p\"
head -c \"$3\" > \"$p.$$\"
[ \"$(wc -c < \"$p.$$\")\" -eq \"$3\" ]
chmod 700 \"$p.$$\"; is_whole \"$p.$$\" \"$4\"; mv -f \"$p.$$\" \"$p\"
printf 'dedup-shard-ship done\\n'";
const MARK: &[u8] = b"dedup-shard-ship ";
const MOST_BYTES: usize = 64 << 10;

/// Copies a program to a host, unless it is there. Gives how a worker is started with it.
pub fn ship(
    to: &dyn Transport,
    program: &Path,
    directory: Option<&str>,
    limit: Duration,
) -> io::Result<Vec<String>> {
    let (bytes, sum) = sum_of(program).map_err(io::Error::other)?;
    let key = format!("{}-{sum}", env!("CARGO_PKG_VERSION"));
    let words = [
        "sh",
        "-c",
        SCRIPT,
        "sh",
        directory.unwrap_or_default(),
        &key,
        &bytes.to_string(),
        &sum,
    ]
    .map(str::to_owned);
    let mut wire = to.spawn(&words, limit)?;
    wire.set_limit(limit);
    let line = read_line(&mut wire)
        .map_err(|error| io::Error::new(error.kind(), format!("{error} ({})", wire.said())))?;
    let (word, path) = line.split_once(' ').unwrap_or((&line, ""));
    if word == "want" {
        io::copy(&mut File::open(program)?, &mut wire)?;
        wire.flush()?;
        if read_line(&mut wire)? != "done" {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the program could not be copied",
            ));
        }
    }
    wire.finish()?;
    Ok(vec![
        path.to_owned(),
        "worker".to_owned(),
        format!("--self={sum}"),
    ])
}

/// Whether a program is the one that was sent.
pub fn is_self(program: &Path, sum: &str) -> Result<bool> {
    Ok(sum_of(program)?.1 == sum)
}

/// The next line of the script, whatever a shell says before it.
fn read_line(wire: &mut impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    loop {
        let mut byte = [0];
        wire.read_exact(&mut byte)?;
        bytes.push(byte[0]);
        if byte[0] == b'\n'
            && let Some(start) = memchr::memmem::find(&bytes, MARK)
        {
            return Ok(String::from_utf8_lossy(&bytes[start + MARK.len()..])
                .trim_end()
                .to_owned());
        }
        if bytes.len() > MOST_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "something else answers there",
            ));
        }
    }
}
