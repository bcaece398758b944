//! Those who may log in, in a file of the process's directory: their names, what they may do, and hashes of their
//! passwords (Argon2id).
//!
//! The file is the process's own, not part of the cluster map: it works while the cluster has no majority, and hashes stay
//! where they are checked.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use weft_host::{Error, Result, replace_private};

/// The file.
const FILE: &str = "users.json";

/// The fewest and most bytes of a password.
const LENGTHS: std::ops::RangeInclusive<usize> = 12..=256;

/// The most users.
const MOST: usize = 1000;

/// The longest name.
const LONGEST_NAME: usize = 32;

/// The cost of a hash: memory in KiB and passes over it, as OWASP advises.
const MEMORY: u32 = 19 << 10;
const PASSES: u32 = 2;

/// What a user may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// See everything.
    #[default]
    Read,
    /// Also act.
    Act,
}

impl Role {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Act => "act",
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Role, String> {
        match text {
            "read" => Ok(Role::Read),
            "act" => Ok(Role::Act),
            _ => Err(format!("'{text}' is not a role; choose read or act")),
        }
    }
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The name.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The hash of the password.
    pub(crate) hash: String,
}

/// The users of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    #[serde(skip)]
    path: PathBuf,
    users: Vec<User>,
}

impl Users {
    /// Those of a directory; none if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read, or is none of users.
    pub fn load(dir: &Path) -> Result<Users> {
        let path = dir.join(FILE);
        let shown = path.display();
        let users = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|e| {
                Error(format!("{shown} is not a file of users: {e}; restore it, or remove it and add the users again"))
            })?,
            Err(e) if e.kind() == ErrorKind::NotFound => Users::default(),
            Err(e) => return Err(Error(format!("cannot read {shown}: {e}"))),
        };
        Ok(Users { path, ..users })
    }

    /// All of them.
    pub fn all(&self) -> &[User] {
        &self.users
    }

    /// One of them.
    pub fn find(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name == name)
    }

    /// One more, who cannot log in.
    #[cfg(test)]
    pub(crate) fn users_for_tests(&mut self, name: &str) {
        let (name, role) = (name.to_string(), Role::Read);
        self.users.push(User { name, role, hash: String::new() });
    }

    fn find_mut(&mut self, name: &str) -> Result<&mut User> {
        let there: Vec<&str> = self.users.iter().map(|u| u.name.as_str()).collect();
        let there = if there.is_empty() { "none".to_string() } else { there.join(", ") };
        let missing = || Error(format!("there is no user '{name}'; there are: {there}"));
        self.users.iter_mut().find(|user| user.name == name).ok_or_else(missing)
    }

    /// Refuses the name of a user that cannot be made.
    ///
    /// # Errors
    /// If it is taken, or no name, or there are too many users.
    pub fn check_new(&self, name: &str) -> Result<()> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
        if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(plain) {
            return Err(Error(format!(
                "'{name}' cannot be a user's name; use 1 to {LONGEST_NAME} of a-z, 0-9, '-', '_' and '.'"
            )));
        }
        if self.find(name).is_some() {
            return Err(Error(format!(
                "there is already a user '{name}'; choose another name, or change the password (`weft user password {name}`)"
            )));
        }
        match self.users.len() < MOST {
            true => Ok(()),
            false => Err(Error(format!("there are {MOST} users already; remove one first"))),
        }
    }

    /// Adds one.
    ///
    /// # Errors
    /// As [`Users::check_new`], and if the password is too short or too long, or the file cannot be written.
    pub fn add(&mut self, name: &str, role: Role, password: &str) -> Result<()> {
        self.check_new(name)?;
        let hash = hashed(password)?;
        self.users.push(User { name: name.to_string(), role, hash });
        self.save()
    }

    /// Changes the password of one. Whoever is logged in under that name has to log in again.
    ///
    /// # Errors
    /// If there is no such user, the password is too short or too long, or the file cannot be written.
    pub fn set_password(&mut self, name: &str, password: &str) -> Result<()> {
        self.find_mut(name)?;
        let hash = hashed(password)?;
        self.find_mut(name)?.hash = hash;
        self.save()
    }

    /// Changes what one may do.
    ///
    /// # Errors
    /// If there is no such user, or the file cannot be written.
    pub fn set_role(&mut self, name: &str, role: Role) -> Result<()> {
        self.find_mut(name)?.role = role;
        self.save()
    }

    /// Removes one, and so logs them out.
    ///
    /// # Errors
    /// If there is no such user, or the file cannot be written.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.find_mut(name)?;
        self.users.retain(|user| user.name != name);
        self.save()
    }

    fn save(&self) -> Result<()> {
        let cannot =
            |e: &dyn std::fmt::Display| Error(format!("cannot write {}: {e}", self.path.display()));
        let mut text = serde_json::to_vec_pretty(self).map_err(|e| cannot(&e))?;
        text.push(b'\n');
        replace_private(&self.path, &text).map_err(|e| cannot(&e))
    }

    /// The user of this name and password. It takes as long if there is none of this name.
    pub(crate) fn prove(&self, name: &str, password: &str) -> Option<&User> {
        static NOBODY: OnceLock<Option<String>> = OnceLock::new();
        let nobody = || NOBODY.get_or_init(|| hashed("nobody has this").ok()).as_deref();
        let user = self.find(name);
        let hash = user.map(|user| user.hash.as_str()).or_else(nobody)?;
        let is_right = *LENGTHS.end() >= password.len() && matches(hash, password);
        user.filter(|_| is_right)
    }
}

fn argon2() -> Result<Argon2<'static>> {
    let params = Params::new(MEMORY, PASSES, 1, None);
    let params = params.map_err(|e| Error(format!("the parameters of the hash: {e}")))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hashed(password: &str) -> Result<String> {
    if !LENGTHS.contains(&password.len()) {
        return Err(Error(format!(
            "a password has {} to {} bytes, and this one {}; choose another",
            LENGTHS.start(),
            LENGTHS.end(),
            password.len()
        )));
    }
    let cannot = |e: &dyn std::fmt::Display| Error(format!("cannot hash the password: {e}"));
    let salt = SaltString::encode_b64(&random::<16>()?).map_err(|e| cannot(&e))?;
    let hash = argon2()?.hash_password(password.as_bytes(), &salt).map_err(|e| cannot(&e))?;
    Ok(hash.to_string())
}

fn matches(hash: &str, password: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    // The costs are those of the hash.
    Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error("the kernel provides no random bytes".to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const GOOD: &str = "correct horse";

    #[test]
    fn users_are_kept_in_a_private_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut users = Users::load(dir.path()).unwrap();
        assert!(users.all().is_empty() && users.prove("ann", GOOD).is_none());
        users.add("ann", Role::Read, GOOD).unwrap();
        users.set_role("ann", Role::Act).unwrap();
        let read = Users::load(dir.path()).unwrap();
        assert_eq!(read, users);
        let user = read.prove("ann", GOOD).unwrap();
        assert!(user.role == Role::Act && user.hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert!(!user.hash.contains(GOOD));
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for wrong in ["", "correct hors", "correct horse ", &"x".repeat(100_000)] {
            assert!(read.prove("ann", wrong).is_none());
        }
        assert!(read.prove("ben", GOOD).is_none() && read.prove("", "").is_none());
        assert!(read.prove("ben", "nobody has this").is_none());
        users.set_password("ann", "another password").unwrap();
        assert!(users.prove("ann", GOOD).is_none());
        users.remove("ann").unwrap();
        assert!(Users::load(dir.path()).unwrap().all().is_empty());
    }

    #[test]
    fn bad_names_and_passwords_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut users = Users::load(dir.path()).unwrap();
        for bad in ["", "Ann", "a b", "<b>", "ä", &"a".repeat(33)] {
            let said = users.add(bad, Role::Read, GOOD).unwrap_err().0;
            assert!(said.contains("cannot be a user's name"), "{said}");
        }
        for bad in ["", "eleven byte", &"x".repeat(257)] {
            assert!(users.add("ann", Role::Read, bad).unwrap_err().0.contains("12 to 256 bytes"));
        }
        users.add("ann", Role::Read, GOOD).unwrap();
        assert!(
            users.add("ann", Role::Act, GOOD).unwrap_err().0.contains("weft user password ann")
        );
        assert!(users.remove("ben").unwrap_err().0.ends_with("there are: ann"));
        fs::write(dir.path().join(FILE), "{\"users\": 7}").unwrap();
        assert!(Users::load(dir.path()).unwrap_err().0.contains("is not a file of users"));
        assert!("root".parse::<Role>().unwrap_err().contains("read or act"));
    }
}
