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
