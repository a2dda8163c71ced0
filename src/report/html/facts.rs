//! How a report was made: what a case file must say, and what another run needs to give the same pages.

use super::frame::{put, put_element};

/// How a report was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportFacts {
    /// The program and its version.
    pub program: String,
    /// The date of the report, as the caller gives it.
    pub date: Option<String>,
    /// The date of the newest document, if the documents are files.
    pub newest: Option<String>,
    /// Settings that decide what is found: a name and a value each.
    pub settings: Vec<(String, String)>,
}

impl ReportFacts {
    /// The same in a sentence, for pages that may leave the report.
    pub fn sentence(&self) -> String {
        let dates = [("on", &self.date), ("newest document of", &self.newest)];
        let dates = dates
            .iter()
            .filter_map(|(what, date)| Some(format!("{what} {}", date.as_ref()?)));
        let settings = self
            .settings
            .iter()
            .map(|(name, value)| format!("{} {value}", name.to_lowercase()));
        let parts: Vec<String> = dates.chain(settings).collect();
        format!(
            "This page is of a report made by {}: {}.",
            self.program,
            parts.join("; ")
        )
    }
}

/// Appends the section.
pub fn put_facts(out: &mut Vec<u8>, facts: &ReportFacts) {
    put(
        out,
        "<section class=\"facts\" id=\"facts\">\n<h2>How this report was made</h2>\n<dl>\n",
    );
    put_fact(out, "Made by", &facts.program);
    if let Some(date) = &facts.date {
        put_fact(out, "Date of the report", date);
    }
    if let Some(newest) = &facts.newest {
        put_fact(out, "Newest document", newest);
    }
    for (name, value) in &facts.settings {
        put_fact(out, name, value);
    }
    put(out, "</dl>\n</section>\n");
}

fn put_fact(out: &mut Vec<u8>, name: &str, value: &str) {
    put_element(out, "<div><dt>", name, "</dt>");
    put_element(out, "<dd><bdi>", value, "</bdi></dd></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text() {
        let facts = ReportFacts {
            program: "dedup-extract 9.9".to_owned(),
            settings: vec![("Score".to_owned(), "<b>".to_owned())],
            ..ReportFacts::default()
        };
        let mut page = Vec::new();
        put_facts(&mut page, &facts);
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("<dt>Made by</dt><dd><bdi>dedup-extract 9.9</bdi>"));
        assert!(page.contains("<dt>Score</dt><dd><bdi>&lt;b&gt;</bdi>"));
        assert!(!page.contains("Date of"));
        let facts = ReportFacts {
            date: Some("2026-11-18".to_owned()),
            ..facts
        };
        assert_eq!(
            facts.sentence(),
            "This page is of a report made by dedup-extract 9.9: on 2026-11-18; score <b>."
        );
    }
}
