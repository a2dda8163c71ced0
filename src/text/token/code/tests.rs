use crate::base::num::ToUsize;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn lex_with(text: &str, normalize: bool) -> Vec<(String, Span)> {
    let mut out = Tokens::new(true);
    run_lexer(text, normalize, &mut out);
    let tokens = out
        .iter()
        .map(|token| String::from_utf8(token.to_vec()).unwrap());
    tokens.zip(out.spans().unwrap().iter().copied()).collect()
}

fn lex(text: &str) -> Vec<String> {
    lex_with(text, false)
        .into_iter()
        .map(|(token, _)| token)
        .collect()
}

fn normal(text: &str) -> String {
    lex_with(text, true)
        .into_iter()
        .map(|(token, _)| token)
        .collect::<Vec<_>>()
        .join(" ")
}

/// `expected` holds the tokens with one space between any two; `␣` is a space in a token.
#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(
        lex(text),
        expected
            .split(' ')
            .map(|token| token.replace('␣', " "))
            .collect::<Vec<_>>()
    );
}

#[test]
fn c() {
    let text = "#include <stdio.h>\n# gone\n#define STR(x) #x \\\n  ## x\n/* a\n * block */ int main(void) {\n\
                \tunsigned long n = 0x1Fu, *p = &n; // gone too\n\
                \tn <<= 2; n = p->x ? '\\'' : .5e-3f; --n;\n\tputs(\"a\\\"b\\n\");\n}";
    check(
        text,
        "# include < stdio . h > # define STR ( x ) # x \\ ## x int main ( void ) { \
         unsigned long n = 0x1Fu , * p = & n ; n <<= 2 ; n = p -> x ? '\\'' : .5e-3f ; -- n ; puts ( \"a\\\"b\\n\" ) ; }",
    );
}

#[test]
fn rust() {
    let text = "#![allow(dead_code)]\n#[derive(Debug)]\nstruct Both<'a, 'b: 'a>(&'a str, &'b str);\n\
                fn f<'a>(x: &'a str) -> Option<char> {\n'outer: for i in 0..=9 { x.0.1; }\nSome('a') }";
    check(
        text,
        "# ! [ allow ( dead_code ) ] # [ derive ( Debug ) ] \
         struct Both < ' a , ' b : ' a > ( & ' a str , & ' b str ) ; \
         fn f < ' a > ( x : & ' a str ) -> Option < char > { ' outer : for i in 0 ..= 9 { x . 0.1 ; } Some ( 'a' ) }",
    );
}

#[test]
fn python() {
    let text = "#!/usr/bin/env python3\n#import os\n\u{feff}# naïve\ndef größe(x, *args):\n    \
                '''It's\n\tof  two\r\n    lines.'''\n    return x ** 2 != 1_000 or f'{x}' # done\n";
    check(
        text,
        "def größe ( x , * args ) : '''It's␣of␣two␣lines.''' return x ** 2 != 1_000 or f '{x}'",
    );
}

#[test]
fn javascript() {
    let text = "const $el = (a?.b ?? 1e6) => { /* x */ return `line ${a}\n  two` === \"it's\" && a !== .5; }\n\
                <!-- x -->\ni++;";
    check(
        text,
        "const $el = ( a ?. b ?? 1e6 ) => { return `line␣${a}␣two` === \"it's\" && a !== .5 ; } i ++ ;",
    );
}

#[test]
fn sql() {
    let text = "-- all of it\n  --\nSELECT a.id, 'it''s' FROM \"T\" a\n  -- gone\n WHERE a.n <> 1.5 AND b LIKE 'x y';";
    check(
        text,
        "SELECT a . id , 'it' 's' FROM \"T\" a WHERE a . n <> 1.5 AND b LIKE 'x␣y' ;",
    );
}

#[test]
fn shell() {
    let text = "#!/bin/sh -e\nif [ $# -gt 0 ] && test \"$1\" = '--help'; then # usage\n  echo ${1#-} >>log 2>&1;;\nfi";
    check(
        text,
        "if [ $ # - gt 0 ] && test \"$1\" = '--help' ; then echo $ { 1 # - } >> log 2 > & 1 ;; fi",
    );
}

#[test]
fn numbers() {
    check(
        "1_000 0b01 1.5e-3 0x1e+5 0x1p-3 1e+ 1.max 1..2 1.2.3",
        "1_000 0b01 1.5e-3 0x1e + 5 0x1p-3 1e + 1 . max 1 .. 2 1.2 . 3",
    );
    check(
        "1'000'000 8'hff f().0 a.0 (.5) x=.5 12pie-3 ٣٤",
        "1'000'000 8'hff f ( ) . 0 a . 0 ( .5 ) x = .5 12pie - 3 ٣٤",
    );
}

#[test]
fn unclosed_quotes_and_comments() {
    check("a \"b\nc 'd \\\ne' `f", "a \" b c ' d \\ e ' ` f");
    check("\"\"\"a\nb", "\"\" \" a b");
    check("x < 'a' && y<'b c", "x < 'a' && y < ' b c");
    check("a /* b\nc", "a");
    check("a <!-- b\nc", "a");
    check("a /*/ b */ c", "a c");
    assert!(lex("").is_empty() && lex(" \n\u{a0}\u{feff}").is_empty());
}

#[test]
fn hashes_that_are_no_comments() {
    check(
        "#import <a.h>\n#import a\nx #if 1\ny#z",
        "# import < a . h > x y # z",
    );
    check("#define A \\\n  #a\n  #b", "# define A \\ # a");
}

#[test]
fn spans_are_of_the_source() {
    let span = |start, end| Span { start, end };
    let expected = [
        ("é".to_owned(), span(1, 3)),
        ("`a b`".to_owned(), span(4, 11)),
        ("→".to_owned(), span(11, 14)),
    ];
    assert_eq!(lex_with(" é `a\n \tb`→ ", false), expected);
}

#[test]
fn renaming_and_other_literals_give_the_same_normal_tokens() {
    let one = "for (int i = 0; i < n; i++) { total += price[i] * 1.19; log(\"sum\", 'x'); } // net";
    let two =
        "for (int k=10;k<len;k++) {\n  Σ += kosten[k]*.5e-3; print(`so\nviel`, \"\"\"a\"\"\"); }";
    let expected =
        "for ( int ID = NUM ; ID < ID ; ID ++ ) { ID += ID [ ID ] * NUM ; ID ( STR , STR ) ; }";
    assert_eq!(
        (normal(one).as_str(), normal(two).as_str()),
        (expected, expected)
    );
    assert_eq!(
        normal("SELECT reinterpret_cast synchronizedly"),
        "SELECT reinterpret_cast ID"
    );
    assert_eq!(
        normal("fn f<'a>() -> Self { None }"),
        "fn ID < ' ID > ( ) -> Self { None }"
    );
}

/// Some of these take quadratic time if failed searches are repeated: minutes instead of milliseconds.
#[test]
fn hostile_text_takes_linear_time() {
    for unit in [
        "\"\\", "'\\", "`\\", "\"\"\"\\", "'''\\`", "\"'\\", "<'a", "#import ", "1e-", "/*",
        "<!--", "--\n", "<'a,'",
    ] {
        let text = unit.repeat(1_000_000 / unit.len());
        for text in [format!("\"{text}"), format!("`{text}"), text] {
            let started = Instant::now();
            tokenize(&text, &mut Tokens::default());
            assert!(started.elapsed() < Duration::from_secs(3), "{unit}");
        }
    }
}

/// True if the quote at the start of `rest` is closed; unlike the lexer, it remembers no earlier search.
fn is_closed(rest: &str, spans_lines: bool) -> bool {
    let quote = rest.chars().next();
    let mut chars = rest.chars().skip(1).peekable();
    while let Some(c) = chars.next() {
        if Some(c) == quote {
            return true;
        }
        if matches!(c, '\n' | '\r') && !spans_lines {
            return false;
        }
        if c == '\\' && (spans_lines || !matches!(chars.peek(), Some('\n' | '\r'))) {
            chars.next();
        }
    }
    false
}

proptest! {
    #[test]
    fn any_text_is_lexed(text in r#"([ -~]|["'`\\ \n\ra1.#/*<-]|"""|'''|é|\PC){0,60}"#, normalize: bool) {
        let mut last = 0;
        for (token, span) in lex_with(&text, normalize) {
            prop_assert!(last <= span.start && span.start < span.end);
            last = span.end;
            let source = text.get(span.range());
            prop_assert!(source.is_some() && !token.is_empty() && !token.contains('\n'));
            let source = source.unwrap_or_default();
            if !normalize && !source.contains(['\n', '\r']) {
                prop_assert_eq!(source, &token);
            }
            if matches!(token.as_str(), "\"" | "`") {
                prop_assert!(!is_closed(&text[span.start.to_usize()..], token == "`"));
            }
        }
    }

    #[test]
    fn white_space_and_comments_leave_no_trace(words in prop::collection::vec("[a-z]{1,3}|[0-9]|[+(;]", 0..20)) {
        prop_assert_eq!(lex(&words.join(" /* # \" */ // '\n")), words);
    }
}
