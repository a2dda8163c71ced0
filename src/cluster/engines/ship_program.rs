//! Copies this program to a host that does not have it.

use crate::cluster::worker::checksum_of;
use crate::{base::error::Result, cluster::remote::Transport};
use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

/// `$1`: the directory of the host, or empty; `$2`: the name of the program's directory; `$3`: its
/// size; `$4`: its checksum, which the program verifies itself. The program appears when it is
/// complete. A damaged one is replaced.
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

/// Copies a program to a host, unless it is there. Returns the command that starts a worker with
/// it.
pub fn ship(
    to: &dyn Transport,
    program: &Path,
    directory: Option<&str>,
    limit: Duration,
) -> io::Result<Vec<String>> {
    let (bytes, sum) = checksum_of(program).map_err(io::Error::other)?;
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
    let mut connection = to.spawn(&words, limit)?;
    connection.set_limit(limit);
    let line = read_line(&mut connection).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{error} ({})", connection.stderr_tail()),
        )
    })?;
    let (word, path) = line.split_once(' ').unwrap_or((&line, ""));
    if word == "want" {
        io::copy(&mut File::open(program)?, &mut connection)?;
        connection.flush()?;
        if read_line(&mut connection)? != "done" {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the program could not be copied",
            ));
        }
    }
    connection.finish()?;
    Ok(vec![
        path.to_owned(),
        "worker".to_owned(),
        format!("--self={sum}"),
    ])
}

/// Whether a program has this checksum.
pub fn is_program(program: &Path, sum: &str) -> Result<bool> {
    Ok(checksum_of(program)?.1 == sum)
}

/// Reads the next line of the script, and skips what a shell prints before it.
fn read_line(connection: &mut impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    loop {
        let mut byte = [0];
        connection.read_exact(&mut byte)?;
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
