//! Sections of the manual on the tools of a history, and on a history that several servers have.

/// Copies, parts, repairs.
pub const TOOLS: &[&str] = &[
    "history backup DIR COPY copies a history, also one that a server is writing: the copy is what the history was at one moment, has every \
     document that was answered before the command began, was checked, and is a history like any other.",
    "history dump DIR writes a stream of prints, in order of arrival, without what was removed or forgotten. Fed to dedup-query history NEW \
     it makes a history that gives the same answers; the times of arrival, a field of each record, are not taken over.",
    "history split DIR -o OUT --parts N makes N histories of about the same size, OUT/000-126 and so on, one for each range of cardinalities; \
     --buckets A..B, once for each part, says which. A part keeps its cardinalities for ever: --buckets with others is refused. \
     history merge PART… -o OUT joins parts again, with the same answers. Other histories are joined by the time at which their documents \
     came; a document with the same id and the same print in two of them is kept once. Do not add to a history while it is split or merged.",
    "history verify DIR names every damaged file, with the byte, and ends with status 2. What a crash leaves, an incomplete group at the end \
     of a journal, is no damage: readers skip it, and the next writer drops it and says so. A journal that lacks synced bytes is refused. \
     history repair DIR cuts it after its last readable group, keeps the file as it was with .damaged after its name, names what was lost, \
     and ends with status 2. A damaged file of prints cannot be repaired: restore a backup.",
    "history stats DIR counts as entries what a search finds, and apart from that what was removed or forgotten and is still in a file.",
];

/// A history that follows a log.
pub const HIGH_AVAILABILITY: &[&str] = &[
    "With --log nats://HOST:PORT/STREAM several servers have the same history, and any of them may fail. A stream of NATS JetStream is the \
     order of all that is added and removed: each server publishes what its clients send, applies all entries of the log in their order, and \
     answers a request at the place of its entry, as a single history would. It needs a program that was built with cargo build --release \
     --features nats, and nats-server 2.9 or newer, best on three machines.",
    "To start: on each machine dedup-query serve --history seen --lines tcp:127.0.0.1:7000 --log \
     nats://one:4222,two:4222,three:4222/history. The first server makes the stream, with --log-replicas copies of each entry. All servers \
     need the same --min-similarity and --top, and where they are given the same --max-age, --max-entries and --buckets. The connection to \
     NATS has neither TLS nor a password: keep it in a network of its own.",
    "A request that adds or removes is answered when the log has acknowledged its entry, and the entry is in the journal of this server, on \
     disk; --sync-every has no effect. An acknowledged entry is on most nodes of NATS, but not yet on their disks. Requests that add nothing \
     see every entry that was acknowledged before them, through any server. Removal and forgetting (--max-age, --max-entries) are entries of \
     the log, too, and the time of an entry is that of the server which published it.",
    "A server that was killed goes on from its journal. One that lost its disk starts with an empty directory and reads the whole log, or \
     sooner with a copy that history backup made of another server; it must do so if the log no longer has its first entries. Until a server \
     has applied all that the log has, it is not ready: GET /readyz answers 503, and its answers name the log in missing. GET /metrics has \
     the entry that it has applied, and the last one of the log.",
    "While the log is out of reach for more than 2 seconds, as when a node of NATS died and another one takes over (4 to 15 seconds), a server \
     answers from what it has, names the log in missing, and adds nothing (added is false): send such documents again, which is always safe. \
     An entry that was on its way may still be added. With --log-lost wait requests wait instead.",
    "A server refuses, with a message and status 2, a log that is not the one that its history follows, that lacks entries which it needs, that \
     has another entry where it has applied one, or that ends before those which it has applied. If the others go on, start it with a \
     backup of one of them, or with an empty directory. The last happens if all nodes of NATS lose power, or their disks. Then stop all servers; \
     history stats shows which has applied most; start this one with the name of a new stream and --log-begin, and the others with a backup \
     of it and the new name. In the same way --log-begin begins a log with a history that existed before.",
    "A front (--upstream) takes servers of the same cardinalities that follow one log for replicas: see SEVERAL SERVERS. A history that is too \
     large for one machine is divided by --buckets, with a log and two servers or more for each range.",
];
