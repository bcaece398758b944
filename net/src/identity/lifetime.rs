//! How long certificates are good, and what time it is.
//!
//! A node's certificate is good for a year and renewed each month, so eleven months may pass in which
//! it cannot be. None says when it begins to be good: a machine whose clock is slow, or begins in
//! 1970, is not locked out. The authority's own certificate is trusted as long as there is a
//! cluster: it is what nodes and tokens know the cluster by.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::TimeProvider;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::{IdentityError, tls};

const DAY: u64 = 86_400;

/// How long a node's certificate is good, in seconds.
pub const LIFE: u64 = 365 * DAY;

/// How old a certificate is when it is renewed.
const RENEWED_AFTER: u64 = 30 * DAY;

/// Certificates say that they are good from the day before this one on, in seconds since 1970. A clock
/// that is behind it is taken to show it.
const EARLIEST: u64 = 1_577_836_800 + DAY;

/// The last second that a certificate can name.
const LATEST: u64 = 253_402_300_799;

/// What time it is, in seconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The machine's time of day.
    pub fn system() -> Clock {
        Clock::of(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }

    /// Another one.
    pub fn of(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(clock))
    }

    /// The time.
    pub fn now(&self) -> u64 {
        (self.0)().max(EARLIEST)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(at(self.now()))
    }
}

fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

/// Whether a certificate that is good until then is to be renewed now: it is a month old, or good
/// for longer than any is made today, as those of earlier versions are.
pub fn is_due(until: u64, now: u64) -> bool {
    until < now + LIFE - RENEWED_AFTER || until > now + 2 * LIFE
}

/// Whether a certificate that is good until `new` is to take the place of one that is good until
/// `old`. It is not if it has lapsed by the clock here, or would sooner: then a clock is off.
pub(super) fn is_better(new: u64, old: u64, now: u64) -> bool {
    let is_too_long = old > now + 2 * LIFE;
    new > now && (new > old || (is_too_long && new > now + LIFE / 2))
}

fn check(
    certificate: &CertificateDer<'_>,
    ca: &CertificateDer<'_>,
    seconds: u64,
) -> Result<(), webpki::Error> {
    let parsed = EndEntityCert::try_from(certificate)?;
    let anchor = anchor_from_trusted_cert(ca)?;
    let algorithms = tls::signature_algorithms();
    let usage = KeyUsage::client_auth();
    parsed.verify_for_usage(algorithms, &[anchor], &[], at(seconds), usage, None, None).map(drop)
}

/// Until when a certificate is good.
pub(super) fn until(
    certificate: &CertificateDer<'_>,
    ca: &CertificateDer<'_>,
) -> Result<u64, IdentityError> {
    match check(certificate, ca, LATEST) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Ok(not_after.as_secs()),
        Err(e) => Err(IdentityError::Tls(e.to_string())),
        Ok(()) => Ok(LATEST),
    }
}

/// Refuses a certificate that an authority has not signed. It may have lapsed.
pub(super) fn check_signed(
    certificate: &CertificateDer<'_>,
    ca: &CertificateDer<'_>,
) -> Result<(), IdentityError> {
    check(certificate, ca, EARLIEST).map_err(|e| {
        IdentityError::Tls(format!("the cluster's authority has not signed this certificate ({e})"))
    })
}

/// Year, month and day at some seconds since 1970.
pub(super) fn day(seconds: u64) -> (i32, u8, u8) {
    // Days since 1 March of the year 0, in eras of 400 years.
    let days = seconds / DAY + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year as i32, month as u8, day as u8)
}

/// A date, for people.
pub fn date(seconds: u64) -> String {
    let (year, month, day) = day(seconds);
    format!("{year}-{month:02}-{day:02}")
}

/// The day on which a certificate ends that is good for `life` seconds from now.
pub(super) fn end(now: u64, life: u64) -> (i32, u8, u8) {
    day(now.saturating_add(life).min(LATEST - DAY) + DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (EARLIEST - DAY, "2020-01-01"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
            (LATEST, "9999-12-31"),
        ] {
            assert_eq!(date(seconds), expected);
        }
        assert_eq!(end(EARLIEST, LIFE), (2021, 1, 2), "2020 has a day more");
    }

    #[test]
    fn who_is_due_and_what_is_better() {
        let now = 2_000_000_000;
        let good = now + LIFE;
        assert!(!is_due(good, now) && !is_due(good, now + 29 * DAY));
        assert!(is_due(good, now + 31 * DAY) && is_due(good, good + 1));
        let for_ever = now + 194 * LIFE;
        assert!(is_due(for_ever, now));
        assert!(is_better(good, now + DAY, now) && is_better(good, for_ever, now));
        assert!(!is_better(good, good, now), "as good as the one that there is");
        assert!(!is_better(now, now - DAY, now), "lapsed");
        assert!(!is_better(now + DAY, for_ever, now), "whoever made it has a slow clock");
    }

    #[test]
    fn a_clock_that_is_far_behind_shows_the_earliest_day() {
        assert_eq!(Clock::of(|| 17).now(), EARLIEST);
        assert_eq!(Clock::of(|| EARLIEST + 3).now(), EARLIEST + 3);
    }
}
