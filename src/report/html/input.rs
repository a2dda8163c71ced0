//! The account of the input on an overview: which kinds of files were read and left out, and what helps.

use super::{
    frame::{put, put_element},
    number::{count, counted},
};
use crate::text::corpus::Account;

/// A line of totals, and a table of kinds.
pub fn put_input(out: &mut Vec<u8>, account: &Account) {
    put(
        out,
        "<section class=\"input\" id=\"input\">\n<h2>What was read</h2>\n",
    );
    put_element(out, "<p>", &totals(account), "</p>\n");
    put(
        out,
        "<table>\n<thead><tr><th scope=\"col\">Kind of file</th><th scope=\"col\" class=\"number\">Files</th><th scope=\"col\">Outcome</th></tr></thead>\n<tbody>\n",
    );
    for (kind, &files) in &account.kinds {
        put_row(out, kind, files, "read");
    }
    for (reason, files) in account.left_out() {
        let remedy = reason.kind.remedy();
        let outcome = remedy.map_or_else(
            || "left out".to_owned(),
            |remedy| format!("left out; {remedy}"),
        );
        put_row(out, &reason.to_string(), *files, &outcome);
    }
    put(out, "</tbody>\n</table>\n</section>\n");
}

fn totals(account: &Account) -> String {
    let mut parts = vec![account.read_totals()];
    if account.files_left_out() > 0 {
        parts.push(format!(
            "left out {}",
            counted(account.files_left_out(), "file")
        ));
    }
    if account.records_left_out > 0 {
        parts.push(format!(
            "left out {}",
            counted(account.records_left_out, "record")
        ));
    }
    for (encoding, &texts) in &account.decoded {
        parts.push(format!(
            "decoded {} from {encoding}",
            counted(texts, "text")
        ));
    }
    parts.join("; ")
}

fn put_row(out: &mut Vec<u8>, kind: &str, files: u64, outcome: &str) {
    put_element(out, "<tr><td>", kind, "</td>");
    put_element(out, "<td class=\"number\">", &count(files), "</td>");
    put_element(out, "<td>", outcome, "</td></tr>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::{Packing, SkipReason, SkippedKind};

    #[test]
    fn kinds_that_were_read_come_first() {
        let mut account = Account::default();
        account.documents = 3;
        account.files = 3;
        account.bytes = 4200;
        account.count_kind("text");
        account.count_kind("docx");
        account.count_kind("docx");
        account.count_decoded("windows-1252");
        let reason = |kind, within| SkipReason { kind, within };
        account.leave_out(reason(SkippedKind::Xlsx, Packing::Gzip), 1);
        account.leave_out(reason(SkippedKind::UnknownBinary, Packing::Plain), 1);
        let mut page = Vec::new();
        put_input(&mut page, &account);
        let page = String::from_utf8(page).unwrap();
        let line = "read 3 documents in 3 files (4.2 kB); left out 2 files; decoded 1 text from windows-1252";
        assert!(page.contains(&format!("<p>{line}</p>")), "{page}");
        let rows: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("<tr>"))
            .collect();
        assert_eq!(
            rows,
            [
                "<tr><td>docx</td><td class=\"number\">2</td><td>read</td></tr>",
                "<tr><td>text</td><td class=\"number\">1</td><td>read</td></tr>",
                "<tr><td>xlsx in gzip</td><td class=\"number\">1</td><td>left out; export it as CSV</td></tr>",
                "<tr><td>unknown binary</td><td class=\"number\">1</td><td>left out</td></tr>",
            ]
        );
    }
}
