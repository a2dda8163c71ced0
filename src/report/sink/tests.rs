use super::*;

#[derive(Serialize)]
struct SampleRecord<'r> {
    id: &'r str,
    count: u64,
    share: f64,
    is_exact: bool,
    of: Option<&'r str>,
    docs: Vec<&'r str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    estimate: bool,
}

fn written(format: Format, is_estimate: bool) -> String {
    let record = SampleRecord {
        id: "a\t\"b\\\u{9b}\n",
        count: 7,
        share: 1.0 / 3.0,
        is_exact: true,
        of: None,
        docs: vec!["x", "y\""],
        estimate: is_estimate,
    };
    let mut out = Vec::new();
    format.put_head(&record, &mut out).unwrap();
    format.put_record(&record, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_record_in_each_format() {
    for (format, is_estimate, expected) in [
        (
            Format::Ndjson,
            true,
            "{\"id\":\"a\\t\\\"b\\\\\\u009b\\n\",\"count\":7,\"share\":0.333333,\"is_exact\":true,\"of\":null,\"docs\":[\"x\",\"y\\\"\"],\"estimate\":true}\n",
        ),
        (
            Format::Tsv,
            true,
            "id\tcount\tshare\tis_exact\tof\tdocs\testimate\na\\t\\\"b\\\\\\u009b\\n\t7\t0.333333\ttrue\t\t[\"x\",\"y\\\"\"]\ttrue\n",
        ),
        (
            Format::Csv,
            false,
            "id,count,share,is_exact,of,docs\n\"a\t\"\"b\\\u{9b}\n\",7,0.333333,true,,\"[\"\"x\"\",\"\"y\\\"\"\"\"]\"\n",
        ),
    ] {
        assert_eq!(written(format, is_estimate), expected);
    }
}
