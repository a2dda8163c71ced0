//! The section of the manual on the tools of a history.

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
