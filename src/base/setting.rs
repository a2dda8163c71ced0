//! Settings that messages mention, named as the caller knows them.
//!
//! A remedy often is "change this setting". The library does not know what its caller calls it: a program has flags, another
//! caller fills in fields. So messages contain a [`Setting`], which prints as the caller's own name for it, once
//! [`name_settings`] was called, and else as a neutral one.
//!
//! ```
//! use dedup::base::setting::Setting;
//!
//! assert_eq!(format!("raise {}", Setting::MaxDocument), "raise max-document");
//! assert_eq!(Setting::Records.to("text"), "records=text");
//! ```

use std::{fmt, sync::OnceLock};

macro_rules! settings {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// A setting that a message mentions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Setting {
            $(#[doc = $doc] $variant,)*
        }

        impl Setting {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name without a caller's vocabulary.
            pub fn neutral_name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

settings! {
    Adapter "adapter" "A program that turns files into text.",
    Add "add" "The index of shared chunks to add documents to.",
    Bits "bits" "The width of a blot.",
    Corpus "corpus" "Where the documents of an index are now.",
    Dictionary "dictionary" "Whether an index has a dictionary of words.",
    Encoding "encoding" "The encoding of texts.",
    FilterOut "filter-out" "The file to write a filter of shared chunks to.",
    Final "final" "Whether an index of shared chunks is closed to changes of its documents.",
    IdField "id-field" "The field of a record that has the id.",
    Interleave "interleave" "The number of interleaved streams of tokens.",
    Log "log" "The log that a history follows.",
    LogBegin "log-begin" "Whether a history begins an empty log.",
    Lossy "lossy" "Whether bytes that are not UTF-8 are replaced.",
    MaxDf "max-df" "The most documents that a blot may be in.",
    MaxDocument "max-document" "The longest document, in bytes.",
    MaxRemove "max-remove" "The most documents that one run may remove.",
    Method "method" "How candidates for a comparison are found.",
    MinTokens "min-tokens" "The shortest passage, in tokens.",
    Ocr "ocr" "The language in which images are read.",
    Output "output" "Where results are written.",
    PageBytes "page-bytes" "How large the pages of a report may be together.",
    Passages "passages" "Whether passages are looked for.",
    PValues "p-values" "Whether pairs get the probability that unrelated texts are as similar.",
    Positions "positions" "Whether blots are written with their positions.",
    Records "records" "What a file consists of: documents a line, one text, sequences.",
    Relative "relative" "Whether ids are paths below the directory that was named.",
    Remove "remove" "The index of shared chunks to remove documents from.",
    Scheme "scheme" "How windows become blots.",
    Select "select" "Which blots are kept.",
    ShipBinaries "ship-binaries" "Whether the program is copied to other hosts.",
    Since "since" "The generation to compare with.",
    SkipBad "skip-bad" "Whether input that cannot be used is left out.",
    Spans "spans" "Whether tokens are written with their byte spans.",
    TextField "text-field" "The field of a record that has the text.",
    Top "top" "The number of best results.",
    Upstream "upstream" "The servers that a front asks.",
    WindowTokens "k" "The number of tokens of a window.",
}

/// A caller's name for each setting.
pub type Vocabulary = fn(Setting) -> &'static str;

static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();

/// From now on messages name settings by `vocabulary`. The first call decides, as messages may be under way already.
pub fn name_settings(vocabulary: Vocabulary) {
    let _ = VOCABULARY.set(vocabulary);
}

impl Setting {
    /// The setting with a value: `--records text` on a command line, `records=text` elsewhere.
    pub fn to(self, value: impl fmt::Display) -> String {
        match VOCABULARY.get() {
            Some(name) => format!("{} {value}", name(self)),
            None => format!("{}={value}", self.neutral_name()),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match VOCABULARY.get() {
            Some(name) => name(*self),
            None => self.neutral_name(),
        })
    }
}
