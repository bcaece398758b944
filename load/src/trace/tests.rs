//! Every format: what is read, what is refused, and that what is written is read again.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;

use super::*;

/// A trace read to its end: its records, or the error; devices; what was left out.
fn read(bytes: &[u8], options: Options) -> Result<(Vec<Record>, Reader<'_>), String> {
    let mut reader = Reader::new("t", bytes, options).map_err(|e| e.to_string())?;
    let records: Result<Vec<Record>, TraceError> = reader.by_ref().collect();
    Ok((records.map_err(|e| e.to_string())?, reader))
}

fn request(at: Nanos, device: u32, kind: Kind, offset: u64, len: u64) -> Record {
    Record { at, device, kind, offset, len, response: None }
}

/// Reads text whose format must be seen from how it begins.
fn text(text: &str, format: Format) -> (Vec<Record>, Vec<String>, Vec<(&'static str, u64)>) {
    let (records, reader) = read(text.as_bytes(), Options::default()).unwrap();
    assert_eq!(reader.format(), format);
    let left_out = reader.left_out().iter().map(|(what, n)| (*what, *n)).collect();
    (records, reader.devices().names().to_vec(), left_out)
}

#[test]
fn csv() {
    let (records, devices, left_out) = text(
        "time_ns,device,op,offset,bytes,response_ns\n5,a,R,4096,512,70\n9,b,write,0,1,\n9,a,f,0,0,\n",
        Format::Csv,
    );
    let first = Record { response: Some(70), ..request(5, 0, Kind::Read, 4096, 512) };
    let flush = request(9, 0, Kind::Flush, 0, 0);
    assert_eq!(records, [first, request(9, 1, Kind::Write, 0, 1), flush]);
    assert_eq!((devices, left_out), (vec!["a".into(), "b".into()], vec![]));

    let other = b"time_s,start_us,stop_us,bytes,sector,dev,rw\n0.022479,76,10038,4096,1040,1,R\n";
    let options = Options { sector_bytes: Some(256), ..Options::default() };
    let (records, reader) = read(other, options).unwrap();
    let response = Some(10_038_000);
    assert_eq!(records, [Record { response, ..request(22_479_000, 0, Kind::Read, 266_240, 4096) }]);
    assert_eq!(reader.unread_columns(), ["start_us"]);
}

#[test]
fn trims_are_left_out_of_csv_and_counted() {
    let (records, _, left_out) =
        text("time_ns,op,offset,bytes\n1,R,0,512\n2,Trim,0,512\n3,d,0,512\n", Format::Csv);
    assert_eq!(records, [request(1, 0, Kind::Read, 0, 512)]);
    assert_eq!(left_out, [("trims", 2)]);
}

#[test]
fn csv_that_was_srt_counts_in_its_sectors() {
    let sectors = |heading: &str, line: &str, sector_bytes| {
        let trace = format!("{heading}\n{line}\n");
        let options = Options { sector_bytes, ..Options::default() };
        let (records, reader) = read(trace.as_bytes(), options).unwrap();
        (records[0].offset, reader.sector_bytes())
    };
    // The columns of the week of hplajw.
    let srt = "time_s,start_us,stop_us,bytes,sector,dev,rw,sync,cyl,flags_hex,info,qlen,rtype";
    let line = "0.0,174,19687,4096,1056,1,R,S,1,1b,458752,1,1";
    assert_eq!(sectors(srt, line, None), (1056 * 256, Some(256)));
    assert_eq!(sectors(srt, line, Some(512)), (1056 * 512, Some(512)), "the user knows better");
    let other = "time_s,op,sector,bytes";
    assert_eq!(sectors(other, "0,R,8,4096", None), (4096, Some(512)));
    assert_eq!(sectors("time_s,op,offset,sectors", "0,R,8,8", None), (8, Some(512)));
    assert_eq!(sectors("time_s,op,offset,bytes", "0,R,8,8", Some(256)), (8, None));
}

#[test]
fn srt_that_is_written_as_csv_is_where_it_was() {
    let record = Record { response: Some(5_000), ..request(1000, 0, Kind::Read, 1056 * 256, 4096) };
    let mut devices = Devices::default();
    devices.number("1");
    let write = |format, record: &Record| {
        let mut writer = Writer::new(Vec::new(), format).unwrap();
        writer.write(record, &devices).unwrap();
        writer.finish().unwrap()
    };
    let srt = write(Format::Srt, &record);
    let (records, reader) = read(&srt, Options::default()).unwrap();
    assert_eq!((records[0], reader.sector_bytes()), (record, Some(256)));
    let csv = write(Format::Csv, &records[0]);
    let (records, reader) = read(&csv, Options::default()).unwrap();
    assert_eq!((records[0], reader.sector_bytes()), (record, None), "it counts in bytes");
}

#[test]
fn disksim_and_ssdsim() {
    let (records, devices, _) = text("0.5 3 100 16 1\n1.25 0 7 8 0\n\n", Format::Disksim);
    let read = request(500_000, 0, Kind::Read, 51_200, 8192);
    assert_eq!(records, [read, request(1_250_000, 1, Kind::Write, 3584, 4096)]);
    assert_eq!(devices, ["3", "0"]);
    let (records, ..) = text("938513000 4 264719034 16 0\n938828000 4 16 16 1", Format::Ssdsim);
    let write = request(938_513_000, 0, Kind::Write, 264_719_034 * 512, 8192);
    assert_eq!(records, [write, request(938_828_000, 0, Kind::Read, 8192, 8192)]);
}

#[test]
fn blkparse() {
    let (records, devices, left_out) = text(
        "  8,16   5        1     0.000000000 18615  A   R 144 + 256 <- (8,17) 1\n\
         \x20 8,16   5        2     0.000001850 18615  Q   R 144 + 256 [java]\n\
         \x20 8,16   5        3     0.000006438 18615  G   R 144 + 256 [java]\n\
         \x20 8,16   1        0     0.000012990     0  m   N cfq18615S / insert_request\n\
         \x20 8,0    1        9     1.500000000 18615  Q FWS [jbd2]\n\
         \x20 8,0    1       10     1.500000001 18615  Q FWS 8 + 8 [jbd2]\n\
         \x20 8,0    1       11     1.500000002 18615  Q DS 8 + 800 [fstrim]\n\
         CPU0 (8,16):\n Reads Queued:           0,        0KiB\n\nTotal (8,16):\n\
         \x20 8,0    1       12     2.000000000 18615  Q ZR 16 + 0 [zoned]\n\
         \x20 8,0    1       13     3.000000000 18615  Q  W 16 + 8 [java]\n",
        Format::Blkparse,
    );
    assert_eq!(
        records,
        [
            request(1850, 0, Kind::Read, 73_728, 131_072),
            request(1_500_000_000, 1, Kind::Flush, 0, 0),
            request(1_500_000_001, 1, Kind::Write, 4096, 4096),
            request(3_000_000_000, 1, Kind::Write, 8192, 4096),
        ]
    );
    assert_eq!(devices, ["8:16", "8:0"]);
    assert_eq!(
        left_out,
        [
            ("discards", 1),
            ("events other than the queueing of a request", 3),
            ("lines of blkparse's summary", 3),
            ("operations on zones", 1),
        ]
    );
}

#[test]
fn iolog() {
    let (records, devices, left_out) = text(
        "fio version 3 iolog\n42 /f add\n240 /f open\n248 /f read 61440 4096\n\
         474 /f write 774144 4096\n625 /f datasync 20480 0\n700 /f trim 0 4096\n900 /f close\n",
        Format::Iolog,
    );
    let read = request(248_000, 0, Kind::Read, 61_440, 4096);
    let write = request(474_000, 0, Kind::Write, 774_144, 4096);
    assert_eq!(records, [read, write, request(625_000, 0, Kind::Flush, 0, 0)]);
    assert_eq!(devices, ["/f"]);
    assert_eq!(left_out, [("trims", 1)]);
    let (records, ..) = text(
        "fio version 2 iolog\n/f add\n/f open\n/f read 0 512\n/f wait 150 0\n/f wait 50 0\n\
         /f write 512 512\n",
        Format::Iolog,
    );
    let read = request(0, 0, Kind::Read, 0, 512);
    assert_eq!(records, [read, request(200_000, 0, Kind::Write, 512, 512)]);
}

/// fio does not know a file that was not added, and waits until the time of the first request.
#[test]
fn an_iolog_opens_its_files_and_begins_with_its_first_request() {
    let mut devices = Devices::default();
    let [a, b] = ["/a", "/b"].map(|name| devices.number(name));
    let hour = 3_600_000_000_000;
    let records = [
        request(hour, a, Kind::Read, 0, 512),
        request(hour + 5000, b, Kind::Write, 512, 512),
        request(hour + 9000, a, Kind::Flush, 0, 0),
    ];
    assert_eq!(
        String::from_utf8(written(&records, &devices, Format::Iolog).unwrap()).unwrap(),
        "fio version 3 iolog\n0 /a add\n0 /a open\n0 /a read 0 512\n\
         5 /b add\n5 /b open\n5 /b write 512 512\n9 /a sync 0 0\n"
    );
}

#[test]
fn measured() {
    let (records, ..) = text(
        "R Miss  564347     2     14095.370     13876.270\nW Doub 10 4 1.5 2\n",
        Format::Measured,
    );
    let first = request(0, 0, Kind::Read, 564_347 * 512, 1024);
    let second = request(27_971_640, 0, Kind::Write, 5120, 2048);
    assert_eq!(
        records,
        [Record { response: Some(14_095_370), ..first }, Record { response: Some(1500), ..second }]
    );
}

#[test]
fn msr() {
    let (records, devices, _) =
        text("128166372003061629,usr,0,Read,7014609920,24576,41286\n", Format::Msr);
    let read = request(12_816_637_200_306_162_900, 0, Kind::Read, 7_014_609_920, 24_576);
    assert_eq!(records, [Record { response: Some(4_128_600), ..read }]);
    assert_eq!(devices, ["usr.0"]);
}

/// Byte order mark, names of columns, ends of lines as on Windows, blanks, blank lines.
#[test]
fn traces_are_read_as_people_save_them() {
    let names = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
    for (plain, heading, format) in [
        ("1,usr,0,Read,4096,512,9\n2,usr,1,Write,0,512,9\n", names, Format::Msr),
        ("5 0 8 1 1\n6 1 16 8 0\n", "time device sector sectors operation", Format::Ssdsim),
        ("0.5 3 100 16 1\n1.5 3 4 16 0\n", "# ms dev block blocks flags", Format::Disksim),
        (
            "R Miss 8 2 1.0 2.0\nW Hit 10 4 1.5 2\n",
            "kind buffer block blocks us gap",
            Format::Measured,
        ),
        ("8,16 5 2 0.1 1 Q R 1 + 2 [j]\n8,16 5 3 0.2 1 Q W 1 + 2 [j]\n", "", Format::Blkparse),
        ("fio version 2 iolog\n/f add\n/f open\n/f read 0 4096\n", "", Format::Iolog),
        ("time_ns,op,offset,bytes\n1,R,0,512\n2,W,512,512\n", "", Format::Csv),
    ] {
        let expected = read(plain.as_bytes(), Options::default()).unwrap().0;
        assert!(!expected.is_empty());
        let lines = plain.lines().map(|line| format!("{line} \t\r\n")).collect::<String>();
        let edited = format!("\u{feff}\r\n{heading}\r\n{lines}\r\n  \r\n");
        for given in [None, Some(format)] {
            let options = Options { format: given, sector_bytes: None };
            let (records, reader) = read(edited.as_bytes(), options).unwrap();
            assert_eq!((&records, reader.format()), (&expected, format), "{edited}");
        }
    }
    let spaced = "1, usr, 0, read, 4096, 512, 9\n";
    assert_eq!(text(spaced, Format::Msr).0[0].kind, Kind::Read);
    let wide: Vec<u8> = "\u{feff}5 0 8 1 1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let error = read(&wide, Options::default()).map(|_| ()).unwrap_err();
    assert_eq!(error, "t: it is in UTF-16; save it as UTF-8");
    // A second heading is a line that cannot be read, and so is a heading alone that nobody knows.
    let twice = format!("{names}\n{names}\n");
    assert!(read(twice.as_bytes(), Options::default()).is_err());
    assert!(read(b"hello, world\n5 and 6\n", Options::default()).is_err());
}

#[test]
fn vscsi() {
    let mut bytes = Vec::new();
    for (command, block) in [(0x2au16, 42_932_745u64), (0x88, 7), (0x35, 0), (0x12, 0)] {
        bytes.extend(0x8000_00f4u32.to_le_bytes());
        bytes.extend(512u32.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(command.to_le_bytes());
        bytes.extend([0, 1]);
        bytes.extend(block.to_le_bytes());
        bytes.extend(1_000_000u64.to_le_bytes());
    }
    let (records, reader) = read(&bytes, Options::default()).unwrap();
    let write = request(1_000_000_000, 0, Kind::Write, 42_932_745 * 512, 512);
    let read_ = Record { kind: Kind::Read, offset: 3584, ..write };
    let flush = Record { kind: Kind::Flush, offset: 0, len: 0, ..write };
    assert_eq!((records, reader.format()), (vec![write, read_, flush], Format::Vscsi));
    let left_out = reader.left_out();
    assert_eq!(left_out["SCSI commands other than reads, writes and flushes"], 1);
    assert_eq!(
        read(&bytes[..70], Options::default()).map(|_| ()).unwrap_err(),
        "t, record 3: expected 32 bytes or more, found 6"
    );
}

/// Records of SRT: version, type, and the words behind.
fn srt(records: &[(u32, u32, &[u32])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (version, kind, words) in records {
        let size = 8 + 4 * words.len() as u32;
        let all = [size, version << 16 | kind].into_iter().chain(words.iter().copied());
        bytes.extend(all.flat_map(u32::to_be_bytes));
    }
    bytes
}

#[test]
fn srt_with_and_without_a_header() {
    let read_ = [1, 500_000, 74, 19_687, 4096, 1056, 0x1ff, 0, 1, 0x1b, 458_752, 1];
    let write = [2, 0, 1, 2, 8192, 8, 0x2ff, 0, 1, 0x8810a, 0];
    let bare = srt(&[(4, 1, &read_), (4, 4, &[0; 13]), (3, 3, &[0; 2]), (3, 1, &write)]);
    let headed = [b"name\t= \"x\";\ntracedate\t= \"Sat May 30\";\n\x0c", &bare[..]].concat();
    for bytes in [&bare, &headed] {
        let (records, reader) = read(bytes, Options::default()).unwrap();
        let first = request(1_500_000_000, 0, Kind::Read, 1056 * 256, 4096);
        let second = request(2_000_000_000, 1, Kind::Write, 2048, 8192);
        assert_eq!(
            records,
            [
                Record { response: Some(19_687_000), ..first },
                Record { response: Some(2000), ..second }
            ]
        );
        assert_eq!(reader.devices().names(), ["1", "2"]);
        let left_out: Vec<_> = reader.left_out().iter().map(|(w, n)| (*w, *n)).collect();
        let expected = [("records other than requests", 1), ("requests marked as suspect", 1)];
        assert_eq!(left_out, expected);
    }
    let cut = &headed[..30];
    let error = read(cut, Options::default()).map(|_| ()).unwrap_err();
    assert_eq!(error, "t, record 1: expected a form feed at the end of the header, found none");
}

#[test]
fn errors_name_the_line_and_what_was_expected() {
    for (format, text, message) in [
        (
            Format::Csv,
            "time_ns,op,offset\n",
            "line 1: the heading 'time_ns,op,offset' has no column bytes",
        ),
        (
            Format::Csv,
            "time_ns,op,offset,bytes\n\n1,R,0\n",
            "line 3: expected 4 fields as in the heading, found 3",
        ),
        (
            Format::Csv,
            "time_ns,op,offset,bytes\n1,X,0,1\n",
            "line 2: expected R, W or F, found 'X'",
        ),
        (
            Format::Csv,
            "time_ns,op,offset,bytes\n-1,R,0,1\n",
            "line 2: expected the time as a decimal number from 0 on, without exponent, found '-1'",
        ),
        (
            Format::Csv,
            "time_ns,op,sector,bytes\n1,R,99999999999999999,1\n",
            "line 2: the offset 99999999999999999 is beyond 2^64 bytes",
        ),
        (
            Format::Disksim,
            "0.5 3 100 16\n",
            "line 1: expected 'milliseconds device block blocks flags', found '0.5 3 100 16'",
        ),
        (
            Format::Ssdsim,
            "5 3 100 16 2\n",
            "line 1: expected the operation 0 (write) or 1 (read), found '2'",
        ),
        (
            Format::Blkparse,
            "8,16 5 2 0.1 1 Q X 1 + 2 [j]\n",
            "line 1: expected a kind (RWBS) such as R or WS, found 'X'",
        ),
        (
            Format::Blkparse,
            "what 5 2 0.1 1 Q R 1 + 2 [j]\n",
            "line 1: expected a device as MAJOR,MINOR, found 'what'",
        ),
        (
            Format::Iolog,
            "fio version 4 iolog\n",
            "line 1: expected 'fio version 2 iolog' or version 3, found 'fio version 4 iolog'",
        ),
        (
            Format::Iolog,
            "fio version 2 iolog\n/f jump 0 1\n",
            "line 2: expected an action of fio's iolog, found 'jump'",
        ),
        (Format::Measured, "X Hit 1 1 1 1\n", "line 1: expected R or W, found 'X'"),
        (Format::Msr, "1,usr,0,Red,0,1,1\n", "line 1: expected Read or Write, found 'Red'"),
    ] {
        let options = Options { format: Some(format), sector_bytes: None };
        let error = read(text.as_bytes(), options).map(|_| ()).unwrap_err();
        assert_eq!(error, format!("t, {message}"));
    }
    let error = |bytes: &[u8]| read(bytes, Options::default()).map(|_| ()).unwrap_err();
    assert!(error(b"hello\n").contains("csv, srt, disksim"));
    assert_eq!(error(b""), "t: it is empty");
    let long = [b"5 0 1 1 1\n".to_vec(), vec![b'1'; 70_000]].concat();
    assert_eq!(error(&long), "t, line 2: expected a line, found 65536 bytes without an end");
}

#[test]
fn requests_for_nothing_are_left_out_and_those_beyond_all_refused() {
    let (records, _, left_out) = text("5 0 1 0 1\n5 0 1 1 1\n", Format::Ssdsim);
    assert_eq!((records.len(), left_out), (1, vec![("reads and writes of no bytes", 1)]));
    let beyond = b"time_ns,op,offset,bytes\n1,R,18446744073709551615,1\n";
    let error = read(beyond, Options::default()).map(|_| ()).unwrap_err();
    assert_eq!(error, "t, line 2: 1 bytes at 18446744073709551615 reach beyond 2^64 bytes");
}

#[test]
fn gzip_is_unpacked_and_its_damage_seen() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all("5 0 1 1 1\n".repeat(1000).as_bytes()).unwrap();
    let mut bytes = packed.finish().unwrap();
    assert_eq!(read(&bytes, Options::default()).unwrap().0.len(), 1000);
    // Members one behind the other are one file.
    let twice = [&bytes[..], &bytes[..]].concat();
    assert_eq!(read(&twice, Options::default()).unwrap().0.len(), 2000);
    bytes.truncate(bytes.len() - 4);
    assert!(read(&bytes, Options::default()).is_err());
}

fn written(records: &[Record], devices: &Devices, format: Format) -> Result<Vec<u8>, WriteError> {
    let mut writer = Writer::new(Vec::new(), format)?;
    records.iter().try_for_each(|r| writer.write(r, devices))?;
    writer.finish()
}

#[test]
fn what_a_format_cannot_hold_is_refused_or_counted() {
    let mut devices = Devices::default();
    assert_eq!(["a", "b"].map(|name| devices.number(name)), [0, 1]);
    let read = request(0, 0, Kind::Read, 0, 512);
    for (format, record, message) in [
        (
            Format::Disksim,
            Record { len: 100, ..read },
            "100 bytes at 0 are not whole sectors of 512",
        ),
        (Format::Msr, read, "has no response times"),
        (Format::Measured, Record { device: 1, ..read }, "supports only one device"),
        (Format::Vscsi, Record { device: 1, ..read }, "supports only one device"),
        (
            Format::Srt,
            Record { offset: 256 << 32, response: Some(0), ..read },
            "does not fit into 32 bits",
        ),
    ] {
        let error = written(&[record], &devices, format).unwrap_err().to_string();
        assert!(error.starts_with(&format!("request 1 cannot be written as {format}: ")));
        assert!(error.contains(message), "{error}");
    }
    let mut writer = Writer::new(Vec::new(), Format::Disksim).unwrap();
    writer.write(&request(0, 0, Kind::Flush, 0, 0), &devices).unwrap();
    assert_eq!(writer.left_out().values().sum::<u64>(), 1);
    assert!(writer.finish().unwrap().is_empty());
}

proptest! {
    /// Times in whole microseconds and ranges in whole sectors go through every format.
    #[test]
    fn what_is_written_is_read_again(
        drawn in prop::collection::vec(
            (0..1_000_000u64, 0..2u32, any::<bool>(), 0..1_000_000u64, 1..300u64, 0..50_000u64),
            1..30,
        ),
    ) {
        for format in Format::ALL {
            let (mut devices, mut now) = (Devices::default(), 0);
            let single = matches!(format, Format::Vscsi | Format::Measured);
            let name = |device: u32| match format {
                Format::Blkparse => format!("8:{device}"),
                Format::Msr => format!("host.{device}"),
                _ => device.to_string(),
            };
            let records: Vec<Record> = drawn
                .iter()
                .map(|(gap, device, read, block, blocks, response)| {
                    let device = devices.number(&name(if single { 0 } else { *device }));
                    let kind = if *read { Kind::Read } else { Kind::Write };
                    let timed = matches!(
                        format,
                        Format::Csv | Format::Srt | Format::Msr | Format::Measured
                    );
                    let response = timed.then_some(response * 1000);
                    let record = Record {
                        at: now, device, kind, offset: block * 512, len: blocks * 512, response,
                    };
                    now += gap * 1000 + response.unwrap_or(0);
                    record
                })
                .collect();
            let bytes = written(&records, &devices, format).unwrap();
            let (again, reader) = read(&bytes, Options::default()).unwrap();
            prop_assert_eq!(reader.format(), format);
            prop_assert_eq!(reader.devices().names(), devices.names());
            prop_assert!(reader.left_out().is_empty());
            prop_assert_eq!(again, records);
        }
    }

    /// No bytes, whatever they are, break a parser.
    #[test]
    fn rubbish_is_refused_not_believed(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        printable in "[ -~\n]{0,200}",
    ) {
        for format in Format::ALL {
            let options = Options { format: Some(format), sector_bytes: None };
            for input in [&bytes[..], printable.as_bytes()] {
                if let Ok(reader) = Reader::new("t", input, options) {
                    prop_assert!(reader.count() <= 201);
                }
            }
        }
    }
}

/// As a simulator does it: once for the extent, once for the requests.
#[test]
fn a_trace_is_surveyed_and_replayed() {
    let bytes = b"1000 7 0 8 1\n3000 9 0 8 0\n4000 7 16 8 1\n";
    let reader = || Reader::new("t", &bytes[..], Options::default()).unwrap();
    let mut survey = Survey::default();
    reader().for_each(|r| survey.add(&r.unwrap()));
    let asks = |volume, pace| -> Result<Vec<crate::Ask>, TraceError> {
        let mapping = Mapping::new(&survey.ends(), volume, Fit::Refuse, 4096)?;
        Replay::new(reader(), mapping, pace)?.collect()
    };
    let timed = asks(16_384, Pace::AsTimed { speed: 1.0 }).unwrap();
    let all: Vec<_> = timed.iter().map(|a| (a.kind, a.offset, a.len, a.wait)).collect();
    assert_eq!(
        all,
        [
            (Kind::Read, 0, 4096, 0),
            (Kind::Write, 12_288, 4096, 2000),
            (Kind::Read, 8192, 4096, 1000),
        ]
    );
    let error = |r: Result<Vec<crate::Ask>, TraceError>| r.unwrap_err().to_string();
    assert!(error(asks(16_383, Pace::AsFast)).contains("covers 16384 bytes"));
    assert!(error(asks(16_384, Pace::AsThought)).contains("has no response times"));
}
