//! Compares with files whose every line was checked by hand: the frame goes from 70 to 620 and
//! from 340 up to 40.

use weft_report::{Axis, Block, Kind, Page, Plot, Point, Series, Table};

fn plot() -> Plot {
    let point = |x, y, error| Point { x, y, error };
    let series = |name: &str, kind, points| Series { name: name.into(), kind, points };
    Plot {
        title: "Reads & writes".into(),
        x: Axis::log("bytes"),
        y: Axis::linear("ms"),
        series: vec![
            series(
                "a < b",
                Kind::Measured,
                vec![point(1.0, 2.0, Some(1.0)), point(10.0, 5.0, None), point(100.0, 10.0, None)],
            ),
            series("a < b", Kind::Published, vec![point(10.0, 7.5, None)]),
            series("c", Kind::Measured, vec![point(1.0, 0.0, None), point(0.0, 1.0, None)]),
        ],
    }
}

#[track_caller]
fn compare(name: &str, made: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("WEFT_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(made == golden, "{name} is not as in {path}; it is:\n{made}");
}

#[test]
fn a_plot() {
    let svg = plot().svg();
    let (_, drawing) = svg.split_once("</style>\n").unwrap();
    compare("plot.svg.part", drawing);
}

#[test]
fn names_along_the_axis_and_one_series() {
    let points = (0..3).map(|n| Point { x: f64::from(n), y: 100.0 * f64::from(n), error: None });
    let series = Series { name: String::new(), kind: Kind::Measured, points: points.collect() };
    let names = ["none", "early", "late"].map(String::from).to_vec();
    let plot = Plot {
        title: "Commit".into(),
        x: Axis::names("commit", names),
        y: Axis::linear("MB/s"),
        series: vec![series],
    };
    let svg = plot.svg();
    let (_, drawing) = svg.split_once("</style>\n").unwrap();
    compare("names.svg.part", drawing);
}

#[test]
fn a_page_has_everything_and_asks_for_nothing() {
    let mut table = Table::new(["size", "ms"]);
    table.row(["4 KiB".into(), 12.5.into()]);
    let page = Page {
        title: "Results".into(),
        blocks: vec![
            Block::Heading("Numbers".into()),
            Block::Paragraph("Mean of <2> runs.".into()),
            Block::Table(table),
            Block::Plot(plot()),
        ],
    };
    let html = page.html();
    let (_, body) = html.split_once("<body>\n").unwrap();
    let (body, _) = body.split_once("<figure>").unwrap();
    compare("page.html.part", body);
    assert!(html.contains("<svg ") && html.contains("pointermove"), "plots and what moves them");
    let outside = html.replace("http://www.w3.org/2000/svg", "");
    for word in ["http", "src=", "@import", "url(", "<link", "fetch("] {
        assert!(!outside.contains(word), "{word} would reach out");
    }
}

/// Colour, form of the mark and dashes of each series, as the legend shows them.
fn looks(svg: &str) -> Vec<(String, String)> {
    let of = |line: &str| {
        let class = line.split('"').nth(1).unwrap().to_string();
        let form = line.split("class=\"dot\" d=\"").nth(1).unwrap();
        let form: String = form.split('"').next().unwrap().replace(|c| !char::is_alphabetic(c), "");
        (class, form)
    };
    svg.lines().filter(|l| l.starts_with("<g class=\"legend")).map(of).collect()
}

#[test]
fn no_two_series_look_alike_and_no_name_is_cut() {
    let name = |n| format!("series {n} of a layout whose name is longer than a line of the legend");
    let series = |n: usize| Series {
        name: name(n),
        kind: Kind::Measured,
        points: vec![Point { x: 1.0, y: n as f64, error: None }],
    };
    let plot = Plot { series: (0..30).map(series).collect(), ..plot() };
    let svg = plot.svg();
    let looks = looks(&svg);
    let different: std::collections::BTreeSet<_> = looks.iter().collect();
    assert_eq!((looks.len(), different.len()), (30, 30), "{looks:?}");
    for (n, line) in svg.lines().filter(|l| l.starts_with("<g class=\"legend")).enumerate() {
        let words: Vec<&str> = line
            .split("<text")
            .skip(1)
            .map(|t| &t[t.find('>').unwrap() + 1..t.find('<').unwrap()])
            .collect();
        assert_eq!(words.join(" "), name(n));
    }
    let lowest = svg.rsplit("<text x=\"668\" y=\"").next().unwrap().split('"').next().unwrap();
    let height = svg.split("viewBox=\"").nth(1).unwrap().split(['"', ' ']).nth(3).unwrap();
    assert!(
        lowest.parse::<f64>().unwrap() < height.parse::<f64>().unwrap(),
        "{lowest} of {height}"
    );
}

#[test]
fn between_names_there_is_no_line_and_series_stand_side_by_side() {
    let names: Vec<String> = (0..8).map(|n| format!("an array named {n}")).collect();
    let points = || (0..8).map(|n| Point { x: f64::from(n), y: 1.0, error: None }).collect();
    let series = |name: &str| Series { name: name.into(), kind: Kind::Measured, points: points() };
    let series = vec![series("one"), series("two")];
    let plot = Plot { x: Axis::names("array", names), series, ..plot() };
    let svg = plot.svg();
    assert!(!svg.contains("class=\"line\" d="), "neither in the plot nor in its legend");
    assert!(svg.contains("rotate(-30"), "names that do not fit are turned");
    assert!(svg.contains("viewBox=\"-35.6 0 925.6 "), "and the longest is not cut: {svg}");
    // The middle of 1 is at 70 + 1.5 * 550 / 8: one stands 0.15 of a place to the left, two as far to the right.
    for at in ["162.81 ", "183.44 "] {
        assert!(svg.contains(&format!("<path class=\"dot\" d=\"M{at}")), "{at}: {svg}");
    }
}
