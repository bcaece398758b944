//! The limits of a volume, in words.

use weft_host::status::VolumeStatus;

/// How much hosts may ask of a volume, if there is a limit.
pub fn limits(volume: &VolumeStatus) -> Option<String> {
    let limit = |key| Some(volume.choice(key)).filter(|word| !matches!(*word, "none" | "?"));
    let (iops, bandwidth) = (limit("iops"), limit("bandwidth"));
    if iops.is_none() && bandwidth.is_none() {
        return None;
    }
    let iops = iops.map(|n| format!("{n} requests per second, "));
    let bandwidth = bandwidth.map(|n| format!("{n} per second, "));
    let waiting = match volume.requests_limited {
        0 => String::new(),
        n => format!("; {n} requests wait here"),
    };
    Some(format!(
        "volume {}: limits: {}{}burst: {}{waiting}",
        volume.name,
        iops.unwrap_or_default(),
        bandwidth.unwrap_or_default(),
        volume.choice("burst"),
    ))
}

/// What a volume promises and how that is kept, if it promises anything.
pub fn promise(volume: &VolumeStatus) -> Option<String> {
    let promise = volume.promise?;
    let missed = match promise.missed_seconds {
        None => "",
        Some(_) => "; this is exceeded at present",
    };
    Some(format!(
        "volume {}: 99 % of reads and writes within {}; background work on its disks at {} %{missed}",
        volume.name,
        volume.choice("p99"),
        promise.background_percent,
    ))
}

#[cfg(test)]
mod tests {
    use weft_host::status::PromiseStatus;

    use super::*;

    #[test]
    fn a_promise_is_shown_where_there_is_one() {
        let volume = |missed_seconds| VolumeStatus {
            name: "v".to_string(),
            policy: [("p99".to_string(), "5ms".to_string())].into(),
            promise: Some(PromiseStatus { background_percent: 12, missed_seconds }),
            ..VolumeStatus::default()
        };
        let said =
            "volume v: 99 % of reads and writes within 5ms; background work on its disks at 12 %";
        assert_eq!(promise(&VolumeStatus::default()), None);
        assert_eq!(promise(&volume(None)).unwrap(), said);
        assert_eq!(
            promise(&volume(Some(11))).unwrap(),
            format!("{said}; this is exceeded at present")
        );
    }

    #[test]
    fn limits_are_shown_where_there_are_some() {
        let volume = |iops: &str, bandwidth: &str, requests_limited| VolumeStatus {
            name: "v".to_string(),
            policy: [("iops", iops), ("bandwidth", bandwidth), ("burst", "10s")]
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .into(),
            requests_limited,
            ..VolumeStatus::default()
        };
        assert_eq!(limits(&volume("none", "none", 0)), None);
        assert_eq!(limits(&VolumeStatus::default()), None, "another version may not say");
        let said = |iops, bandwidth, waiting| limits(&volume(iops, bandwidth, waiting)).unwrap();
        assert_eq!(said("500", "none", 0), "volume v: limits: 500 requests per second, burst: 10s");
        assert_eq!(
            said("500", "20M", 3),
            "volume v: limits: 500 requests per second, 20M per second, burst: 10s; 3 requests wait here"
        );
    }
}
