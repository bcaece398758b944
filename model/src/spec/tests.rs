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
    assert_eq!(text, "mechanics.seek.pieces[0].up_to: only the last piece may omit it");
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

/// The 1.92 TB drive's file with something else in place of something.
fn changed_drive(from: &str, to: &str) -> String {
    let text = builtins().find(|(name, _)| *name == "ssd-2tb").unwrap().1;
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

#[test]
fn errors_of_garbage_collection_name_what_would_do() {
    let text = problem(&changed_drive("page_bytes = 4096", "page_bytes = 1000"));
    assert_eq!(text, "flash.collection.page_bytes: must be a whole number of sectors");
    let text = problem(&changed_drive("page_bytes = 4096", "page_bytes = 24576"));
    assert_eq!(
        text,
        "flash.collection.page_bytes: flash.unit_bytes, 65536, must be a whole number of it"
    );
    let text = problem(&changed_drive("block_bytes = 100_663_296", "block_bytes = 100000"));
    assert_eq!(
        text,
        "flash.collection.block_bytes: must be a whole number of flash.unit_bytes, 65536"
    );
    let text = problem(&changed_drive("bytes = 16_777_216", "bytes = 65535"));
    assert_eq!(
        text,
        "flash.collection.write_buffer_bytes: must be at least flash.unit_bytes, 65536"
    );
    let text =
        problem(&changed_drive("raw_bytes = 2_196_875_771_904", "raw_bytes = 1_920_383_410_176"));
    assert_eq!(
        text,
        "flash.collection.raw_bytes: must be at least 1938704302080, 602 superblocks of 3220439040 \
         bytes: enough for flash.capacity_bytes and 5 more"
    );
    let text = problem(&changed_drive(
        "raw_bytes = 2_196_875_771_904",
        "raw_bytes = 1_152_921_504_606_846_976",
    ));
    assert_eq!(
        text,
        "flash.collection.raw_bytes: must be at most 8 times flash.capacity_bytes, 1920383410176"
    );
    for (from, to, expected) in [
        ("reserve_superblocks = 2", "reserve_superblocks = 1", "it must be 2 to 1024 superblocks"),
        ("erase_ms = 35.0", "erase_ms = inf", "it must be 0 to 1000 ms"),
        ("suspend_ms = 0.1", "suspend_ms = -0.1", "it must be 0 to 1000 ms"),
        ("start = \"preconditioned\"", "start = \"full\"", "unknown variant `full`"),
        ("erase_ms", "erases_ms", "unknown field `erases_ms`"),
        ("raw_bytes = 2_196_875_771_904", "", "missing field `raw_bytes`"),
    ] {
        let text = problem(&changed_drive(from, to));
        assert!(text.contains(expected), "{to}: {text}");
    }
}

#[test]
fn the_raw_bytes_that_an_error_names_are_enough() {
    for raw in ["1_938_704_302_080", "15_363_067_281_408"] {
        Spec::parse(&changed_drive("2_196_875_771_904", raw)).unwrap();
    }
}

#[test]
fn a_simulated_drive_is_small_whatever_its_size() {
    for (capacity, raw) in [
        ("2_305_843_009_213_693", "18_446_744_073_709_544"),
        ("4_000_000_000_000", "4_100_000_000_000"),
    ] {
        let text =
            changed_drive("1_920_383_410_176", capacity).replacen("2_196_875_771_904", raw, 1);
        let Device::Flash(flash) = Spec::parse(&text).unwrap().device else { panic!("flash") };
        let sizes = Sizes::of(&flash, flash.collection.as_ref().unwrap());
        assert!(sizes.logical <= 1 << 20, "{sizes:?}");
        assert!(sizes.per_superblock * sizes.superblocks <= 8 << 20, "{sizes:?}");
        assert!(sizes.superblocks < 2 * 4096, "{sizes:?}");
    }
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
                _ if path.ends_with("_latency") => format!("[[{path}]]"),
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
                ("flash.collection.raw_bytes", _) => "4096".into(),
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
