//! `RUN/report.html`: what a run did, for people. One self-contained page without scripts.

use crate::base::num::{ToF64, ToU64, ToUsize};
use crate::cluster::{
    engines::TaskStage,
    plan::Plan,
    run::summary::{Attempt, AttemptEnd, HostSummary, RunSummary, Transfer},
};
use crate::{
    base::{error::Result, files::durable},
    report::html::{Frame, count, counted, put, put_element, put_html},
};
use std::{collections::HashMap, path::Path};

/// The classes k0, k1 and so on that the style sheet has.
const COLOURS: usize = 8;

const PLAN_FILE: &str = "report.html";
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 150.0;
const ROW: f64 = 18.0;
const TOP: f64 = 24.0;
/// Names of hosts are truncated to this in the drawing; the table has them in full.
const MOST_CHARS: usize = 20;

/// Writes the page, and returns its path.
pub fn write_report(plan: &Plan, summary: &RunSummary, run: &Path) -> Result<std::path::PathBuf> {
    let path = run.join(PLAN_FILE);
    let title = run.file_name().unwrap_or_default().to_string_lossy();
    durable::replace(&path, &page(plan, summary, &title))?;
    Ok(path)
}

fn page(plan: &Plan, summary: &RunSummary, title: &str) -> Vec<u8> {
    let frame = Frame::still(include_str!("report.css"));
    let mut out = Vec::new();
    frame.put_head(&mut out, &format!("{title}: the run"));
    put_element(
        &mut out,
        "<body>\n<header class=\"top\">\n<div class=\"title\"><h1><span>The run</span> <bdi>",
        title,
        "</bdi></h1></div>\n",
    );
    put_numbers(&mut out, plan, summary);
    put(&mut out, "</header>\n<main>\n<h2>When and where</h2>\n");
    let stages: HashMap<String, usize> = TaskStage::all(plan)
        .into_iter()
        .enumerate()
        .map(|(at, stage)| (stage.name, at))
        .collect();
    put_legend(&mut out, plan);
    put_timeline(&mut out, plan, summary, &stages);
    put(&mut out, "<h2>Kinds</h2>\n");
    put_kinds(&mut out, plan, summary);
    if !summary.transfers.is_empty() {
        put(&mut out, "<h2>What was moved</h2>\n");
        put_transfer_kinds(&mut out, summary);
    }
    put(&mut out, "<h2>Hosts</h2>\n");
    put_hosts(&mut out, &summary.hosts);
    put(&mut out, "</main>\n");
    frame.put_foot(&mut out);
    out
}

fn put_numbers(out: &mut Vec<u8>, plan: &Plan, summary: &RunSummary) {
    let seconds = summary.times_ms().map_or(0, |[first, last]| last - first);
    let lost: u64 = summary.hosts.iter().map(|host| host.lost).sum();
    let bytes: u64 = plan.slices.iter().map(|slice| slice.bytes).sum();
    put(out, "<dl class=\"numbers\">");
    for (number, what) in [
        (count(plan.tasks.len().to_u64()), "tasks"),
        (size(bytes), "of documents"),
        (count(summary.hosts.len().to_u64()), "hosts"),
        (time(seconds), "from first to last"),
        (size(summary.moved()), "moved between hosts"),
        (count(lost), "attempts lost or failed"),
    ] {
        put_element(out, "<div><dt>", what, "</dt>");
        put_element(out, "<dd>", &number, "</dd></div>");
    }
    put(out, "</dl>\n");
}

fn put_legend(out: &mut Vec<u8>, plan: &Plan) {
    put(out, "<p class=\"legend\">");
    for (at, stage) in TaskStage::all(plan).iter().enumerate() {
        put(
            out,
            &format!(
                "<svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"k{}\" width=\"12\" height=\"12\"/></svg> ",
                at % COLOURS
            ),
        );
        put_element(out, "", &stage.name, " &ensp; ");
    }
    put(
        out,
        "<svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"lost\" width=\"12\" height=\"12\"/></svg> lost or failed &ensp; <svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"move\" y=\"4\" width=\"12\" height=\"4\"/></svg> something comes to the host</p>\n",
    );
}

/// Something that takes time at a host.
struct TimelineBar<'t> {
    host: &'t str,
    /// The slot and its lane; transfers are drawn below all of them.
    row: (u32, usize),
    times_ms: [u64; 2],
    class: String,
    tooltip: String,
}

fn bars<'t>(
    plan: &Plan,
    summary: &'t RunSummary,
    stages: &HashMap<String, usize>,
    first_ms: u64,
) -> Vec<TimelineBar<'t>> {
    let kinds: HashMap<&str, String> = plan
        .tasks
        .iter()
        .map(|task| (task.id.as_str(), task.kind().name().to_owned()))
        .collect();
    let attempt = |attempt: &'t Attempt| {
        let class = match &attempt.end {
            AttemptEnd::Lost(_) | AttemptEnd::Failed(_) => "lost".to_owned(),
            _ => format!(
                "k{}",
                kinds
                    .get(attempt.task.as_str())
                    .and_then(|kind| stages.get(kind))
                    .unwrap_or(&5)
                    % COLOURS
            ),
        };
        let times_ms = [attempt.start_ms, attempt.end_ms];
        TimelineBar {
            host: &attempt.host,
            row: (attempt.slot, attempt.lane),
            times_ms,
            class,
            tooltip: tooltip(attempt, first_ms),
        }
    };
    let moved = |moved: &'t Transfer| TimelineBar {
        host: &moved.to,
        row: (u32::MAX, 0),
        times_ms: [moved.start_ms, moved.end_ms],
        class: "move".to_owned(),
        tooltip: move_tooltip(moved, first_ms),
    };
    let mut bars: Vec<TimelineBar<'t>> = summary
        .attempts
        .iter()
        .map(attempt)
        .chain(summary.transfers.iter().map(moved))
        .collect();
    bars.sort_by_key(|bar| (bar.host, bar.row, bar.times_ms));
    bars
}

/// A row for each slot of each host, a bar for each attempt, and a thin bar for each transfer.
fn put_timeline(
    out: &mut Vec<u8>,
    plan: &Plan,
    summary: &RunSummary,
    stages: &HashMap<String, usize>,
) {
    let Some([first, last]) = summary.times_ms() else {
        return put(
            out,
            "<p>Nothing was noted of this run: its tasks were run by hand, or by make.</p>\n",
        );
    };
    let x = |ms: u64| {
        LEFT + (WIDTH - LEFT - 10.0) * (ms - first).to_f64() / (last - first).max(1).to_f64()
    };
    let mut drawn = Vec::new();
    let mut rows = 0_usize;
    let mut before: Option<(&str, (u32, usize))> = None;
    for TimelineBar {
        host,
        row,
        times_ms: [from, to],
        class,
        tooltip,
    } in &bars(plan, summary, stages, first)
    {
        if before != Some((host, *row)) {
            rows += 1;
            let y = TOP + ROW * rows.to_f64() - 5.0;
            if before.is_none_or(|(before, _)| before != *host) {
                put(
                    &mut drawn,
                    &format!(
                        "<path class=\"line\" d=\"M0 {0:.1}H{WIDTH}\"/><text x=\"0\" y=\"{y:.1}\">",
                        y - 13.0
                    ),
                );
                put_html(&mut drawn, &cut(host));
                put(&mut drawn, "</text>\n");
            }
        }
        before = Some((host, *row));
        let (from, to, top) = (x(*from), x(*to), TOP + ROW * (rows.to_f64() - 1.0));
        let (y, height) = if class == "move" {
            (top + 6.0, 6)
        } else {
            (top + 2.0, 14)
        };
        put(
            &mut drawn,
            &format!(
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height}\"><title>",
                (to - from).max(1.0)
            ),
        );
        put_html(&mut drawn, tooltip);
        put(&mut drawn, "</title></rect>\n");
    }
    let height = TOP + ROW * rows.to_f64() + 4.0;
    put(
        out,
        &format!(
            "<svg class=\"timeline\" role=\"img\" aria-label=\"Tasks by host and time\" viewBox=\"0 0 {WIDTH} {height:.0}\">\n"
        ),
    );
    put(
        out,
        "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect class=\"red\" width=\"6\" height=\"6\"/><path class=\"hatch\" d=\"M0 0V6\"/></pattern></defs>\n",
    );
    for part in 0..=4_u64 {
        let ms = (last - first) * part / 4;
        let (at, anchor) = (
            x(first + ms),
            ["start", "middle", "middle", "middle", "end"][part.to_usize()],
        );
        put(
            out,
            &format!(
                "<path class=\"line\" d=\"M{at:.1} {TOP}V{height:.0}\"/><text class=\"quiet\" x=\"{at:.1}\" y=\"14\" text-anchor=\"{anchor}\">"
            ),
        );
        put_element(out, "", &time(ms), "</text>\n");
    }
    out.append(&mut drawn);
    put(out, "</svg>\n");
}

/// The tooltip of an attempt.
fn tooltip(attempt: &Attempt, first_ms: u64) -> String {
    let end = match &attempt.end {
        AttemptEnd::Done { bytes_out } => format!("{} written", size(*bytes_out)),
        AttemptEnd::Lost(what) => format!("lost: {what}"),
        AttemptEnd::Failed(what) => format!("failed: {what}"),
        AttemptEnd::Open => "no end is known".to_owned(),
    };
    let [from, to] = [attempt.start_ms, attempt.end_ms].map(|ms| time(ms - first_ms));
    format!(
        "{} on {}, slot {}\nfrom {from} to {to}, {}\n{end}",
        attempt.task,
        attempt.host,
        attempt.slot,
        time(attempt.end_ms - attempt.start_ms)
    )
}

fn move_tooltip(moved: &Transfer, first_ms: u64) -> String {
    let way = if moved.is_direct {
        "from host to host"
    } else {
        "through the coordinator"
    };
    let [from, to] = [moved.start_ms, moved.end_ms].map(|ms| time(ms - first_ms));
    format!(
        "{} of {} from {}, {way}\nfrom {from} to {to}",
        size(moved.bytes),
        moved.kind,
        moved.from
    )
}

fn put_transfer_kinds(out: &mut Vec<u8>, summary: &RunSummary) {
    put(
        out,
        "<div class=\"scroll\"><table>\n<tr><th>kind<th>moves<th>moved<th>of that from host to host</tr>\n",
    );
    for (kind, of) in summary.by_kind() {
        put_row(
            out,
            kind,
            &[count(of.transfers), size(of.bytes), size(of.direct)],
        );
    }
    put(out, "</table></div>\n");
}

fn put_kinds(out: &mut Vec<u8>, plan: &Plan, summary: &RunSummary) {
    let rates = summary.rates(plan);
    put(
        out,
        "<div class=\"scroll\"><table>\n<tr><th>kind<th>tasks<th>bytes of documents<th>a second of a slot</tr>\n",
    );
    for stage in TaskStage::all(plan) {
        let bytes: u64 = stage.tasks.iter().map(|task| task.bytes).sum();
        let rate = rates
            .get(&stage.name)
            .map_or_else(|| "–".to_owned(), |&rate| size(rate));
        put_row(
            out,
            &stage.name,
            &[count(stage.tasks.len().to_u64()), size(bytes), rate],
        );
    }
    put(out, "</table></div>\n");
}

fn put_hosts(out: &mut Vec<u8>, hosts: &[HostSummary]) {
    put(
        out,
        "<div class=\"scroll\"><table>\n<tr><th>host<th>slots<th>tasks done<th>lost or failed<th>busy<th>bytes of documents<th>a second of a slot<th>moved<th>out</tr>\n",
    );
    for host in hosts {
        let cells = [
            count(host.slots.to_u64()),
            count(host.tasks),
            count(host.lost),
            time(host.busy_ms),
            size(host.bytes),
            size(host.bytes_per_second()),
            size(host.moved),
            host.out.clone().unwrap_or_default(),
        ];
        put_row(out, &host.name, &cells);
    }
    put(out, "</table></div>\n");
    put_element(
        out,
        "<p class=\"quiet\">",
        &format!(
            "{}. A slot is a task at a time.",
            counted(hosts.len().to_u64(), "host")
        ),
        "</p>\n",
    );
}

fn put_row(out: &mut Vec<u8>, name: &str, cells: &[String]) {
    put_element(out, "<tr><th scope=\"row\"><bdi>", name, "</bdi>");
    cells
        .iter()
        .for_each(|cell| put_element(out, "<td>", cell, ""));
    put(out, "</tr>\n");
}

fn cut(name: &str) -> String {
    if name.chars().count() <= MOST_CHARS {
        name.to_owned()
    } else {
        name.chars().take(MOST_CHARS - 1).chain(['…']).collect()
    }
}

/// `1.5 GB`.
pub fn size(bytes: u64) -> String {
    let (mut number, mut unit) = (bytes.to_f64(), "B");
    for next in ["kB", "MB", "GB", "TB", "PB"] {
        if number < 999.5 {
            break;
        }
        (number, unit) = (number / 1000.0, next);
    }
    if unit == "B" || number >= 99.5 {
        format!("{number:.0} {unit}")
    } else {
        format!("{number:.1} {unit}")
    }
}

/// `0.25 s`, `12.3 s`, `3 min 20 s`, `5 h 3 min`.
pub fn time(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{:.2} s", ms.to_f64() / 1000.0),
        10_000..120_000 => format!("{:.1} s", ms.to_f64() / 1000.0),
        120_000..7_200_000 => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Event, EventKind, run::summary::tests};

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!(
            [0, 999, 1000, 99_400, 1_234_567, 5_000_000_000].map(size),
            ["0 B", "999 B", "1.0 kB", "99.4 kB", "1.2 MB", "5.0 GB"]
        );
        assert_eq!(
            [250, 12_300, 200_000, 18_180_000].map(time),
            ["0.25 s", "12.3 s", "3 min 20 s", "5 h 3 min"]
        );
    }

    #[test]
    fn the_page_shows_all_events_and_escapes_markup() {
        let plan = tests::plan();
        let mut events = tests::events();
        let odd = "<script>alert(1)</script>\"'&\u{202e}";
        events.push(tests::event(5000, odd, odd, 0, EventKind::Start));
        events.push(tests::event(
            5500,
            odd,
            odd,
            0,
            EventKind::Failed(odd.to_owned()),
        ));
        events.push(Event {
            task: String::new(),
            what: EventKind::HostOut(odd.to_owned()),
            ..events[events.len() - 1].clone()
        });
        let page = String::from_utf8(page(&plan, &RunSummary::new(&plan, &events), odd)).unwrap();
        assert!(
            !page.contains("<script")
                && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;⟦RLO⟧"),
            "{page}"
        );
        assert_eq!(
            (
                page.matches("<rect class=\"lost\" x=").count(),
                page.matches("<rect class=\"k0\" x=").count()
            ),
            (2, 3)
        );
        assert!(
            page.contains(
                "<title>7 B of runs from b, from host to host\nfrom 1.05 s to 1.15 s</title>"
            ),
            "{page}"
        );
        assert!(
            page.contains("<th scope=\"row\"><bdi>runs</bdi><td>2<td>12 B<td>7 B</tr>"),
            "{page}"
        );
        assert!(
            page.contains("m2 on b, slot 0\nfrom 0.55 s to 1.55 s, 1.00 s\nlost: gone</title>"),
            "{page}"
        );
        let empty = String::from_utf8(super::page(&plan, &RunSummary::default(), "r")).unwrap();
        assert!(empty.contains("Nothing was noted of this run"));
    }
}
