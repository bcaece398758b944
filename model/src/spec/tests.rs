use super::*;

fn problem(text: &str) -> String {
    Spec::parse(text).expect_err("must be refused").to_string()
}

/// The Table VI disk's file with something else in place of something.
fn changed(from: &str, to: &str) -> String {
    let text = builtins().find(|(name, _)| *name == "hp97560-tickertaip").unwrap().1;
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

#[test]
fn all_that_come_with_weft_are_right() {
    for (name, _) in builtins() {
        builtin(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    assert!(builtin("hp98000").unwrap_err().to_string().contains("hp97560-tickertaip"));
}

#[test]
fn errors_name_key_and_range() {
    let text = problem(&changed("rpm = 4002", "rpm = 12"));
    assert_eq!(text, "mechanics.rpm is 12; it must be 60 to 1000000 revolutions/min");
    let text = problem(&changed("track_skew = 8", "track_skew = 72"));
    assert_eq!(text, "geometry.zones[0].track_skew: must be less than the track's 72 sectors");
    let text = problem(&changed("last_cylinder = 1952", "last_cylinder = 1962"));
    assert_eq!(text, "geometry.zones[2].last_cylinder: must be 1308..=1961");
    let text = problem(&changed("heads = 19", "heads = 0"));
    assert_eq!(text, "geometry.heads is 0; it must be 1 to 256 tracks");
    let text = problem(&changed("spare_tracks = 15", "spare_tracks = 12270"));
    assert_eq!(text, "geometry.zones[0].spare_tracks: nothing is left of 12274 tracks");
    let text = problem(&changed("unused_tracks = 4", "slipped_tracks = [9, 9]"));
    assert_eq!(text, "geometry.zones[0].slipped_tracks: must ascend within 0..12274");
    let text = problem(&changed("{ up_to = 12,", "{"));
    assert_eq!(text, "mechanics.seek.pieces[0].up_to: only the last piece may do without");
    let text = problem(&changed("rpm = 4002", "rpms = 4002"));
    assert!(text.contains("unknown field `rpms`") && text.contains("line "), "{text}");
    let text = problem(&changed("bytes = 131072", "bytes = 1024"));
    assert_eq!(text, "buffer.read_ahead_bytes: more than the buffer holds; buffer.bytes is 1024");
    let text = problem(&changed("rpm = 4002", "rpm = nan"));
    assert_eq!(text, "mechanics.rpm is NaN; it must be 60 to 1000000 revolutions/min");
}

#[test]
fn a_device_is_of_one_kind() {
    let text = problem(&changed(
        "[geometry]",
        "[fixed]\ncapacity_bytes = 4096\nsector_bytes = 512\npositioning_ms = 1\nbytes_per_s = 1\n[geometry]",
    ));
    assert!(text.starts_with("fixed: "), "{text}");
    assert!(problem("name = \"nothing\"").starts_with("geometry: missing"));
}

/// Collects the keys of a parameter file, as [`parameters`] writes them.
fn keys(prefix: &str, table: &toml::Table, found: &mut Vec<String>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => keys(&key, inner, found),
            toml::Value::Array(values) if values.iter().any(toml::Value::is_table) => {
                for value in values {
                    keys(&key, value.as_table().unwrap(), found);
                }
            }
            _ => found.push(key),
        }
    }
}

#[test]
fn every_key_in_use_is_described() {
    for (name, text) in builtins() {
        let mut found = Vec::new();
        keys("", &toml::from_str(text).unwrap(), &mut found);
        for key in found {
            assert!(describe(&key).is_some(), "{name} has {key}");
        }
    }
}

/// A file with every key there is for a kind of device, each at what `value` gives for it.
fn full(kind: &[&str]) -> String {
    let mut text = String::from("name = \"n\"\nabout = \"a\"\n");
    for table in kind {
        let mut open = String::new();
        for parameter in parameters() {
            let Some((path, name)) = parameter.key.rsplit_once('.') else { continue };
            if path.split('.').next() != Some(*table) {
                continue;
            }
            let header = match path {
                "geometry.zones" | "mechanics.seek.pieces" => format!("[[{path}]]"),
                _ if path.starts_with("flash.") => format!("[[{path}]]"),
                _ => format!("[{path}]"),
            };
            if header != open {
                text += &format!("{header}\n");
                open = header;
            }
            let value = match (parameter.key, parameter.range) {
                ("mechanics.seek.table", _) => "[[1, 1.0]]".into(),
                ("geometry.zones.slipped_tracks", _) => "[]".into(),
                ("geometry.zones.sectors_per_track", _) => "9".into(),
                (_, Range::Number(least, _)) => format!("{:?}", least.max(0.0)),
                (_, Range::Whole(least, _) | Range::WholeOr(least, ..)) => least.to_string(),
                (_, Range::Word(words)) => format!("{:?}", words[0]),
                (_, Range::YesNo) => "true".into(),
                (_, Range::Text) => "\"\"".into(),
            };
            let value = if name == "rpm" { "4000.0".into() } else { value };
            text += &format!("{name} = {value}\n");
        }
    }
    text
}

#[test]
fn every_described_key_is_accepted() {
    for kind in [
        &["geometry", "mechanics", "controller", "buffer", "bus"][..],
        &["fixed", "bus"],
        &["flash", "bus"],
    ] {
        let text = full(kind);
        Spec::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    }
}
