//! Searches of segments and memtables.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_segment_finds_the_same_as_brute_force(
        prints in prints(400), min_similarity in ratio(), top in 1_usize..4, cut in 0_usize..400, steps in any_steps(),
    ) {
        let cut = cut.min(prints.len());
        let (one, two) = (memtable(&prints[..cut]), memtable(&prints));
        let (directory, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let path = |name: &str| directory.path().join(name);
        let first = write_segment(&[&one], &|_, _| true, 0, &path("a"), &stop).unwrap();
        // The rest, from a source without the entries of the first.
        let second = write_segment(&[&two], &|sequence, _| sequence >= cut.to_u64(), 0, &path("b"), &stop).unwrap();
        let sources: Vec<&dyn EntrySource> = first.iter().chain(&second).map(|segment| segment as &dyn EntrySource).collect();
        let mut merged = write_segment(&sources, &|_, _| true, 2, &path("c"), &stop).unwrap().unwrap();
        let all: Vec<_> = (0..).zip(prints.iter().copied()).collect();
        let expected: Vec<_> = prints.iter().map(|print| brute_force(&all, print, min_similarity, top)).collect();
        let parts: Vec<_> = first.iter().chain(&second).map(searching).collect();
        let parts: Vec<&Search> = parts.iter().map(|part| part as _).collect();
        prop_assert_eq!(&found(&prints, min_similarity, top, &[&searching(&merged)]), &expected);
        prop_assert_eq!(&found(&prints, min_similarity, top, &parts), &expected);
        prop_assert_eq!(&found(&prints, min_similarity, top, &[&searching(&two)]), &expected);
        // Every plan finds the same entries.
        merged.steps = steps;
        prop_assert_eq!(&found(&prints, min_similarity, top, &[&searching(&merged)]), &expected);
        for (number, print) in prints.iter().enumerate() {
            let id = format!("d{number}");
            prop_assert_eq!(two.with_id(&id).unwrap(), [number.to_u32()]);
            let entries = merged.with_id(&id).unwrap();
            prop_assert_eq!(entries.len(), 1);
            prop_assert_eq!((merged.sequence(entries[0]).unwrap(), merged.time(entries[0]).unwrap()), (number.to_u64(), number.to_u32()));
            prop_assert_eq!(merged.print(entries[0]).unwrap(), *print);
        }
    }
}

/// With enough entries for tables, in pieces and as a whole, searched together and one by one.
#[test]
fn tables_find_the_same_as_brute_force() {
    let mut prints = many(60_000, 9);
    // Some exist a hundred times, and some have few one bits or many.
    for at in 0..100 {
        prints[50 * at + 7] = prints[3];
        prints[50 * at + 8].0[at % 4] = 0;
        prints[50 * at + 9].0[at % 4] = u64::MAX;
    }
    let (directory, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let memtable = memtable(&prints);
    let build = |name: &str| {
        write_segment(
            &[&memtable],
            &|_, _| true,
            0,
            &directory.path().join(name),
            &stop,
        )
        .unwrap()
        .unwrap()
    };
    let (segment, mut looked_up) = (build("a"), build("b"));
    // Tables cost nothing, and part 0 is looked up for the last two bits.
    looked_up.steps = steps_by_three();
    let all: Vec<_> = (0..).zip(prints.iter().copied()).collect();
    let asked: Vec<Print> = prints[..20]
        .iter()
        .chain(&many(60, 10))
        .chain(&prints[3000..3070])
        .copied()
        .collect();
    for (min_similarity, top) in [
        ("1", 3),
        ("0.97", 1),
        ("0.94", 2),
        ("0.85", 1),
        ("0.8", 2),
        ("0.76", 1),
        ("0.7", 1),
    ] {
        let min_similarity: Ratio = min_similarity.parse().unwrap();
        let expected: Vec<_> = asked
            .iter()
            .map(|print| brute_force(&all, print, min_similarity, top))
            .collect();
        assert_eq!(
            found(&asked, min_similarity, top, &[&searching(&memtable)]),
            expected
        );
        assert_eq!(
            found(&asked, min_similarity, top, &[&searching(&segment)]),
            expected
        );
        assert_eq!(
            found(&asked, min_similarity, top, &[&searching(&looked_up)]),
            expected
        );
        let alone: Vec<_> = asked
            .iter()
            .flat_map(|print| found(&[*print], min_similarity, top, &[&searching(&segment)]))
            .collect();
        assert_eq!(alone, expected);
    }
}

/// A measurement, not a test: `cargo test --release --lib scan_against_memory -- --ignored --nocapture`.
#[test]
#[ignore = "it measures; see scripts/bench/history"]
fn scan_against_memory() {
    let some: Vec<PrintBody> = many(1 << 20, 3)
        .iter()
        .map(|print| split_print(print).1)
        .collect();
    let bodies: Vec<PrintBody> = some
        .iter()
        .copied()
        .cycle()
        .take((1 << 28) / BODY_BYTES)
        .collect();
    let best = |work: &mut dyn FnMut()| {
        let one = |work: &mut dyn FnMut()| {
            let start = std::time::Instant::now();
            work();
            start.elapsed().as_secs_f64()
        };
        (0..7).map(|_| one(work)).fold(f64::INFINITY, f64::min)
    };
    let sum = best(&mut || {
        let add = |sum: u64, body: &PrintBody| {
            body_words(body)
                .iter()
                .fold(sum, |sum, word| sum.wrapping_add(*word))
        };
        std::hint::black_box(bodies.iter().fold(0, add));
    });
    let asked = Print([5; 4]);
    let scan = best(&mut || {
        crate::history::search::scan::scan(&bodies, &asked, 8, &mut |_, _| Ok(8)).unwrap()
    });
    let rate = |seconds: f64| (BODY_BYTES * bodies.len()).to_f64() / seconds / 1e9;
    eprintln!(
        "| a plain sum, GB/s | the scan, GB/s | the scan takes |\n| ---: | ---: | ---: |\n| {:.1} | {:.1} | {:.2} × |",
        rate(sum),
        rate(scan),
        scan / sum
    );
}
