//! What the passes of SPEX did, as a drawing: fields of the counter that were hit once, and more often, by the length of chunks.

use crate::base::num::ToF64;
use crate::blot::spex::Pass;
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 60.0;

/// An SVG.
pub fn plot_passes(passes: &[Pass]) -> String {
    let most = passes
        .iter()
        .map(|pass| pass.occupancy.once.max(pass.occupancy.more))
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    let last = passes
        .iter()
        .map(|pass| pass.length)
        .max()
        .unwrap_or(1)
        .max(2);
    let x =
        |length: u32| MARGIN + (WIDTH - 2.0 * MARGIN) * f64::from(length - 1) / f64::from(last - 1);
    let y = |fields: u64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * fields.to_f64() / most;
    let (left, right, bottom) = (MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <path d=\"M{left} {MARGIN}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">tokens of a chunk</text>\n\
         <text x=\"{left}\" y=\"{}\">fields of the counter, of {}</text>\n\
         <text x=\"{}\" y=\"{MARGIN}\" text-anchor=\"end\">{most}</text>\n",
        WIDTH / 2.0,
        HEIGHT - 15.0,
        MARGIN - 20.0,
        passes.first().map_or(0, |pass| pass.fields),
        left - 5.0,
    );
    for pass in passes {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x(pass.length),
            bottom + 18.0,
            pass.length
        );
    }
    for (name, colour, dash, at, of) in [
        (
            "hit once",
            "#0072b2",
            "none",
            0.0,
            (|pass: &Pass| pass.occupancy.once) as fn(&Pass) -> u64,
        ),
        (
            "hit more than once",
            "#d55e00",
            "6 4",
            18.0,
            |pass: &Pass| pass.occupancy.more,
        ),
    ] {
        let points: Vec<String> = passes
            .iter()
            .map(|pass| format!("{:.1},{:.1}", x(pass.length), y(of(pass))))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
            points.join(" ")
        );
        for point in &points {
            let (x, y) = point.split_once(',').unwrap_or(("0", "0"));
            let _ = writeln!(
                svg,
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>"
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\" fill=\"{colour}\">{name}</text>",
            MARGIN - 20.0 + at
        );
    }
    svg + "</svg>\n"
}
