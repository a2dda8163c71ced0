//! Ranks the neighbours of a document to the rows of a table.

use super::join::Neighbour;
use crate::base::ids::DocNo;
use crate::index::View;
use std::cmp::Reverse;

/// The sort key of a row, shared blots and first document, and its neighbour.
type Keyed<'n> = (Reverse<u32>, DocNo, &'n Neighbour);

/// The `count` documents that share most with `document`, each with its neighbour: most shared
/// first, then in document order.
///
/// The shared blots ÷ the blots of the document are a→b, so this is also the order by a→b.
pub fn table_rows<'n>(
    view: &View<'_>,
    neighbours: &'n [Neighbour],
    document: DocNo,
    count: usize,
) -> Vec<(DocNo, &'n Neighbour)> {
    // Looks up each key once: comparing through the view would look it up at every comparison.
    let key = |neighbour: &'n Neighbour| {
        (
            Reverse(neighbour.shared),
            view.documents_of(neighbour.content)[0],
            neighbour,
        )
    };
    let by_rank = |one: &Keyed<'_>, two: &Keyed<'_>| (one.0, one.1).cmp(&(two.0, two.1));
    let mut order: Vec<Keyed<'n>> = neighbours.iter().map(key).collect();
    // Each content has a document, and one may be the document itself: at most count + 1 contents
    // are needed.
    if order.len() > count + 1 {
        order.select_nth_unstable_by(count, by_rank);
        order.truncate(count + 1);
    }
    order.sort_unstable_by(by_rank);
    let mut rows = Vec::new();
    for equal in order.chunk_by(|one, two| one.0 == two.0) {
        let start = rows.len();
        for (_, _, neighbour) in equal {
            // The first documents of a content come before its others.
            rows.extend(
                view.documents_of(neighbour.content)
                    .iter()
                    .take(count + 1)
                    .map(|&other| (other, *neighbour)),
            );
        }
        rows[start..].sort_unstable_by_key(|row| row.0);
        if rows.len() > count {
            break;
        }
    }
    rows.retain(|row| row.0 != document);
    rows.truncate(count);
    rows
}
