//! Requests to dedup-query serve: repeated requests, and the fields that control the answer.

use crate::{
    service::{Server, documents},
    test_dir::TestDir,
};

/// A client without an answer may send its request again without side effects.
#[test]
fn a_repeated_request_gets_the_same_answer() {
    let dir = TestDir::new();
    let server = Server::unix(&dir, &["--top", "2"]);
    let (mut client, lines) = (server.connect(&dir), documents(1, 30));
    let first: Vec<String> = lines.lines().map(|line| client.ask(line)).collect();
    for _ in 0..2 {
        let again: Vec<String> = lines.lines().map(|line| client.ask(line)).collect();
        assert_eq!(again, first);
        // Also at the same time, and twice in a batch.
        let twice: String = lines
            .lines()
            .map(|line| format!("{line}\n{line}\n"))
            .collect();
        let expected: String = first.iter().map(|answer| answer.repeat(2)).collect();
        assert_eq!(server.connect(&dir).ask_all(&twice), expected);
    }
    assert!(client.ask("{\"hello\":1}").contains("\"entries\":30,"));
    assert_eq!(server.end("TERM").0, Some(0));
    // Also after a restart.
    let server = Server::unix(&dir, &["--top", "2"]);
    assert_eq!(
        (server.entries, server.connect(&dir).ask_all(&lines)),
        (30, first.concat())
    );
}

#[test]
fn a_request_may_restrict_the_answer_but_not_extend_it() {
    let dir = TestDir::new();
    let server = Server::unix(&dir, &["--top", "3"]);
    let mut client = server.connect(&dir);
    let print = |ones: u32| format!("{:0<64}", "f".repeat(ones as usize / 4));
    for (id, ones) in [("a", 100), ("b", 96), ("c", 92)] {
        client.ask(&format!(
            "{{\"doc\":\"{id}\",\"print\":\"{}\"}}",
            print(ones)
        ));
    }
    let mut matches = |fields: &str| {
        let answer = client.ask(&format!(
            "{{\"doc\":\"x\",\"print\":\"{}\",\"add\":false{fields}}}",
            print(100)
        ));
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        match answer["error"].as_str() {
            Some(error) => error.split_once(": ").unwrap().1.to_owned(),
            None => answer["matches"]
                .as_array()
                .unwrap()
                .iter()
                .map(|found| found["doc"].as_str().unwrap())
                .collect::<String>(),
        }
    };
    assert_eq!(matches(""), "abc");
    for (fields, expected) in [
        (",\"top\":2", "ab"),
        (",\"top\":3", "abc"),
        (",\"min_similarity\":0.96", "ab"),
        (",\"min_similarity\":\"96.1%\"", "a"),
        (",\"min_similarity\":1", "a"),
        (",\"min_similarity\":0.92,\"top\":1", "a"),
        (
            ",\"min_similarity\":0.5",
            "the field 'min_similarity' is 0.5, the service answers from 0.9 on",
        ),
        (
            ",\"top\":4",
            "the field 'top' is 4, the service gives the best 3",
        ),
        (
            ",\"top\":\"all\"",
            "the field 'top' is \"all\", it must be a whole number from 1 on",
        ),
    ] {
        assert_eq!(matches(fields), expected, "{fields}");
    }
    // A request with an invalid `add` adds nothing.
    for add in ["\"false\"", "0", "null"] {
        let answer = client.ask(&format!(
            "{{\"id\":\"y\",\"text\":\"some words\",\"add\":{add}}}"
        ));
        assert!(
            answer.contains("the field 'add' is ")
                && answer.ends_with(", it must be true or false\"}\n"),
            "{answer}"
        );
    }
    assert!(client.ask("{\"hello\":1}").contains("\"entries\":3,"));
}
