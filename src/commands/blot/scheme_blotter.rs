//! Makes the blots of one kind of windows of the tokens of one tokenizer.
//!
//! Where several tokenizers share an index, each has its own kinds of windows. The blots of the first one are those that it has
//! alone; a blot of a further one is that which it has alone, XORed with the top bits of the XXH3 of the tokenizer's name. So two
//! tokenizers that make the same tokens of some text, as `code` and `code-norm` do of operators, have no blot of it in common,
//! and what is counted is the union of the blots of all of them.

use super::options::{BlotOptions, DEFAULT_BITS, default_window};
use crate::{
    base::{
        error::{Error, Result},
        setting::Setting,
    },
    blot as schemes,
    blot::{
        Blotter, Run, Window,
        select::{SelectContext, Selection},
    },
    text::{
        scheme::{SelectScheme, TokenScheme, WindowScheme, WindowSchemes},
        stream::{Blots, Tokens},
        token::{Rule, Tokenizer},
    },
};
use xxhash_rust::xxh3::xxh3_64;

/// Makes the blots of one kind of windows.
#[derive(Clone)]
pub(super) struct SchemeBlotter {
    /// The number of the tokenizer.
    pub list: usize,
    /// What the blots are XORed with.
    salt: u64,
    pub blotter: Blotter,
    pub selection: Selection,
    pub blots: Blots,
}

impl SchemeBlotter {
    /// Makes the blots of a document. Appends to `all` what would be made if blots of single documents were kept, where they are
    /// not.
    pub fn make(&mut self, tokens: &Tokens, counts_distinct: bool, all: &mut Vec<u64>) {
        let Some(tokens) = tokens.list(self.list) else {
            return self.blots.clear();
        };
        let known = all.len();
        self.blotter.blot(tokens, &mut self.blots);
        if counts_distinct && !self.selection.is_shared_only() {
            self.selection.apply(tokens, &mut self.blots);
            all.extend_from_slice(&self.blots.values);
        } else {
            self.selection.apply_counting(tokens, &mut self.blots, all);
        }
        if self.salt != 0 {
            let made = self.blots.values.iter_mut().chain(&mut all[known..]);
            made.for_each(|value| *value ^= self.salt);
        }
    }

    /// The first and the last token of the window that gives a blot.
    pub fn window_of(&mut self, tokens: &Tokens, blot: u64) -> Option<(usize, usize)> {
        self.blotter.blot(tokens, &mut self.blots);
        let is_it = |&value: &u64| value ^ self.salt == blot;
        let at = self.blots.values.iter().position(is_it)?;
        let first = self.blots.positions[at] as usize;
        Some((first, self.blotter.last_token(tokens, first)))
    }
}

/// What the blots of further tokenizers are XORed with.
fn salt(list: usize, name: &str, bits: u8) -> u64 {
    if list == 0 {
        return 0;
    }
    xxh3_64(name.as_bytes()) >> (64 - u32::from(bits))
}

/// The kinds of windows of all tokenizers of a scheme, in order.
pub(super) struct SchemeBlotters {
    pub blotters: Vec<SchemeBlotter>,
    pub windows: WindowSchemes,
    pub bits: u8,
    pub select: SelectScheme,
}

impl SchemeBlotters {
    /// What makes these blots of tokens of this scheme.
    pub fn new(options: &BlotOptions, tokens: &TokenScheme) -> Result<Self> {
        let names = options
            .scheme
            .clone()
            .unwrap_or_else(|| WindowSchemes(Vec::new()));
        let rules: Vec<Option<Rule>> = match tokens.rules() {
            Some(rules) => rules.iter().map(Some).collect(),
            None => vec![None],
        };
        ensure_tokenizers_are_known(&names, tokens, &rules)?;
        let each = tokens.of_each();
        let lists = each.iter().enumerate().map(|(list, scheme)| TokenList {
            list,
            rules: &rules,
            scheme,
        });
        let omits_length = |of: TokenList<'_>| schemes::omits_window_length(&of.windows(&names));
        if !lists.clone().any(omits_length) {
            ensure_no_length_is_given(options, &names)?;
        }
        let mut made = Self {
            blotters: Vec::new(),
            windows: WindowSchemes(Vec::new()),
            bits: options.bits.unwrap_or(DEFAULT_BITS),
            select: SelectScheme::default(),
        };
        for of in lists {
            made.add(options, &of.windows(&names), &of)?;
        }
        Ok(made)
    }

    /// Adds the windows of one tokenizer.
    fn add(
        &mut self,
        options: &BlotOptions,
        windows: &WindowSchemes,
        of: &TokenList<'_>,
    ) -> Result<()> {
        let run = Run {
            k: options.k.unwrap_or_else(|| of.default_window()),
            interleave: options.interleave.unwrap_or(1),
        };
        let bits = self.bits;
        // Phrases are tokenised as the documents are; by words if those came from a program we do not know.
        let tokenizer = of
            .scheme
            .tokenizer()
            .unwrap_or_else(|| Tokenizer::new(Rule::default(), false));
        let asked = options.select.clone().unwrap_or_default();
        for schemes::NamedShape { shape, select, .. } in
            schemes::parse(windows, run).map_err(Error::Usage)?
        {
            let scheme = format!("{} {shape}", of.scheme);
            let context = SelectContext {
                tokenizer: &tokenizer,
                scheme: &scheme,
                bits,
            };
            let asked = Selection::parse(&asked, context).map_err(Error::Usage)?;
            let own = select
                .map(|select| Selection::parse(&select, context))
                .transpose()
                .map_err(Error::Usage)?;
            self.windows.0.push(WindowScheme {
                tokenizer: of.name(),
                shape: shape.to_string().as_str().into(),
                select: own.as_ref().map(Selection::scheme),
            });
            self.select = asked.scheme();
            let window = Window {
                shape,
                bits,
                is_dna: of.scheme.is_dna(),
            };
            self.blotters.push(SchemeBlotter {
                list: of.list,
                salt: salt(of.list, &of.name().unwrap_or_default(), bits),
                blotter: Blotter::new(window).map_err(Error::Usage)?,
                selection: own.unwrap_or(asked),
                blots: Blots::default(),
            });
        }
        Ok(())
    }
}

/// The tokens of one tokenizer.
struct TokenList<'t> {
    list: usize,
    /// Those of all lists; none of tokens that another program made.
    rules: &'t [Option<Rule>],
    scheme: &'t TokenScheme,
}

impl TokenList<'_> {
    fn rule(&self) -> Option<Rule> {
        self.rules[self.list]
    }

    /// As windows name it: only one of several has to be named.
    fn name(&self) -> Option<String> {
        let rule = self.rule().filter(|_| self.rules.len() > 1)?;
        Some(rule.name())
    }

    /// The default number of tokens of a window.
    ///
    /// `code` beside `code-norm` has windows as long as it: so each has as many blots of a file, and windows of few tokens, which
    /// are in many files by their keywords and operators alone, do not hide the renamed copies (scripts/evaluate/code).
    fn default_window(&self) -> u32 {
        match self.rule() {
            Some(Rule::Code) if self.rules.contains(&Some(Rule::CodeNorm)) => {
                default_window(Rule::CodeNorm)
            }
            Some(rule) => default_window(rule),
            None => default_window(Rule::default()),
        }
    }

    /// The default windows: of single letters beside other tokens only some, as there are so many.
    fn default_windows(&self) -> WindowSchemes {
        match self.rule() {
            Some(Rule::Char(1)) if self.rules.len() > 1 => "ordered/winnow:8".into(),
            _ => "ordered".into(),
        }
    }

    /// The windows of its tokens: those that name it, else those that name no tokenizer, else the default.
    fn windows(&self, names: &WindowSchemes) -> WindowSchemes {
        let of = |tokenizer: Option<&Rule>| {
            let is_of = |window: &&WindowScheme| tokenizer_of(window).as_ref() == tokenizer;
            WindowSchemes(names.0.iter().filter(is_of).cloned().collect())
        };
        let own = of(self.rule().as_ref());
        if self.rule().is_some() && !own.0.is_empty() {
            return own;
        }
        let common = of(None);
        if common.0.is_empty() {
            return self.default_windows();
        }
        common
    }
}

/// The tokenizer that a kind of windows names.
fn tokenizer_of(window: &WindowScheme) -> Option<Rule> {
    Rule::parse(window.tokenizer.as_ref()?).ok()
}

/// Window length and interleaving are for names that omit them.
fn ensure_no_length_is_given(options: &BlotOptions, names: &WindowSchemes) -> Result<()> {
    for (setting, is_given) in [
        (Setting::WindowTokens, options.k.is_some()),
        (Setting::Interleave, options.interleave.is_some()),
    ] {
        if is_given {
            return Err(Error::Usage(format!(
                "{setting} has no meaning with {}, which says it all",
                Setting::Scheme.to(names)
            )));
        }
    }
    Ok(())
}

/// Windows can name only tokenizers that there are.
fn ensure_tokenizers_are_known(
    names: &WindowSchemes,
    tokens: &TokenScheme,
    rules: &[Option<Rule>],
) -> Result<()> {
    for window in names.0.iter().filter(|window| window.tokenizer.is_some()) {
        let tokenizer = tokenizer_of(window);
        if tokenizer.is_none() || !rules.contains(&tokenizer) {
            return Err(Error::Usage(format!(
                "{window}: '{}' is not a tokenizer of '{tokens}'",
                window.tokenizer.as_deref().unwrap_or_default()
            )));
        }
    }
    Ok(())
}
