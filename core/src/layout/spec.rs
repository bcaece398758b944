//! Layouts by name, as users write them.

use std::fmt;
use std::str::FromStr;

use super::{Grid, Layout, Local, Placement, Rotating};
use weft_code::{Code, CodeError};

/// A layout as a user names it, before it is known over how many disks it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutSpec {
    /// Striping without redundancy over all disks.
    Raid0,
    /// Two copies of everything.
    Raid1,
    /// One parity column that stays where it is.
    Raid4,
    /// One parity column that rotates.
    Raid5(Placement),
    /// Two parity columns that rotate.
    Raid6,
    /// `k` data and `m` parity columns that rotate.
    ReedSolomon {
        /// Data columns.
        data: usize,
        /// Parity columns.
        parity: usize,
    },
    /// Groups of data columns with a parity each, and parities over all data.
    Local {
        /// Data columns.
        data: usize,
        /// Groups.
        groups: usize,
        /// Parities over all data.
        globals: usize,
    },
    /// Rows of data columns, with a parity of each row, each vertical and everything.
    Grid(Grid),
    /// Two groups for each data unit, over 25 columns.
    DrNet,
}

/// RAID 5, left-symmetric.
impl Default for LayoutSpec {
    fn default() -> Self {
        LayoutSpec::Raid5(Placement::LeftSymmetric)
    }
}

/// A layout that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The name is not one of ours.
    #[error(
        "no layout is called '{0}'; choose {forms}",
        forms = LayoutSpec::forms()
    )]
    Unknown(String),
    /// The name of a family of layouts, and not how many columns of which kind.
    #[error("layout '{0}' needs numbers of columns: write {1}, such as {2}")]
    Counts(String, &'static str, &'static str),
    /// More columns than a code bears, or none.
    #[error(
        "layout {0} has {1} columns; at least one data column and at most {max} columns in all are possible",
        max = Code::MAX_COLUMNS
    )]
    Columns(String, usize),
    /// No code is such.
    #[error("layout {0}: {1}")]
    Code(String, CodeError),
    /// Not enough disks for the columns.
    #[error("layout {layout} needs at least {need} nodes and there are {have}")]
    TooFewNodes {
        /// The layout's name.
        layout: String,
        /// The fewest nodes it works on.
        need: usize,
        /// The nodes that there are.
        have: usize,
    },
}

const ROTATIONS: [(&str, Placement); 4] = [
    ("left-symmetric", Placement::LeftSymmetric),
    ("left-asymmetric", Placement::LeftAsymmetric),
    ("right-symmetric", Placement::RightSymmetric),
    ("right-asymmetric", Placement::RightAsymmetric),
];

/// How layouts are called, and one that is called so where the name alone does not say it.
const FORMS: [(&str, &str); 9] = [
    ("raid0", ""),
    ("raid1", ""),
    ("raid4", ""),
    ("raid5", "raid5:left-asymmetric"),
    ("raid6", ""),
    ("rs:K+M", "rs:4+2"),
    ("lrc:K+L+G", "lrc:12+2+2"),
    ("grid:RxC", "grid:4x4"),
    ("drnet", ""),
];

impl LayoutSpec {
    /// How layouts are called, in words, for help and errors.
    pub fn forms() -> String {
        let form = |(form, such): &(&str, &str)| match such.is_empty() {
            true => form.to_string(),
            false => format!("{form} (such as {such})"),
        };
        let mut all: Vec<String> = FORMS.iter().map(form).collect();
        let last = all.pop().expect("there are some");
        format!("{} or {last}", all.join(", "))
    }

    /// The fewest disks that the layout works on.
    pub fn least_nodes(&self) -> usize {
        match self {
            LayoutSpec::Raid0 => 1,
            LayoutSpec::Raid1 => 2,
            LayoutSpec::Raid4 | LayoutSpec::Raid5(_) => 3,
            LayoutSpec::Raid6 => 4,
            LayoutSpec::ReedSolomon { data, parity } => data + parity,
            LayoutSpec::Local { data, groups, globals } => data + groups + globals,
            LayoutSpec::Grid(grid) => grid.width(),
            LayoutSpec::DrNet => Layout::DrNet.width(),
        }
    }

    /// Whether it has the columns that it names, over however many disks; else it takes all of them.
    pub fn names_columns(&self) -> bool {
        use LayoutSpec::{DrNet, Grid, Local, Raid1, ReedSolomon};
        matches!(self, Raid1 | ReedSolomon { .. } | Local { .. } | Grid(_) | DrNet)
    }

    /// The layout over `nodes` disks. RAID 0, 4, 5 and 6 take all of them (32 at most) as
    /// columns; the others have as many columns as they name, and a volume's extents spread
    /// them over the disks.
    pub fn over(&self, nodes: usize) -> Result<Layout, LayoutError> {
        let need = self.least_nodes();
        if nodes < need {
            return Err(LayoutError::TooFewNodes { layout: self.to_string(), need, have: nodes });
        }
        let n = nodes.min(Code::MAX_COLUMNS);
        let (data, parity, placement) = match *self {
            LayoutSpec::Raid0 => (n, 0, Placement::Fixed),
            LayoutSpec::Raid1 => (1, 1, Placement::LeftSymmetric),
            LayoutSpec::Raid4 => (n - 1, 1, Placement::Fixed),
            LayoutSpec::Raid5(placement) => (n - 1, 1, placement),
            LayoutSpec::Raid6 => (n - 2, 2, Placement::LeftSymmetric),
            LayoutSpec::ReedSolomon { data, parity } => (data, parity, Placement::LeftSymmetric),
            LayoutSpec::Local { data, groups, globals } => {
                return Ok(Layout::Local(Local { data, groups, globals }));
            }
            LayoutSpec::Grid(grid) => return Ok(Layout::Grid(grid)),
            LayoutSpec::DrNet => return Ok(Layout::DrNet),
        };
        Ok(Layout::Rotating(Rotating { data, parity, placement }))
    }
}

impl FromStr for LayoutSpec {
    type Err = LayoutError;

    fn from_str(name: &str) -> Result<Self, LayoutError> {
        let unknown = || match FORMS.iter().find(|(form, such)| is_of_family(name, form, such)) {
            Some((form, such)) => LayoutError::Counts(name.to_string(), form, such),
            None => LayoutError::Unknown(name.to_string()),
        };
        if let Some(rotation) = name.strip_prefix("raid5:") {
            let found = ROTATIONS.iter().find(|(n, _)| *n == rotation).ok_or_else(unknown)?;
            return Ok(LayoutSpec::Raid5(found.1));
        }
        if let Some(counts) = name.strip_prefix("rs:") {
            let (k, m) = counts.split_once('+').ok_or_else(unknown)?;
            let data: usize = k.parse().map_err(|_| unknown())?;
            let parity: usize = m.parse().map_err(|_| unknown())?;
            let columns = data.saturating_add(parity);
            if data == 0 || columns > Code::MAX_COLUMNS {
                return Err(LayoutError::Columns(name.to_string(), columns));
            }
            return Ok(LayoutSpec::ReedSolomon { data, parity });
        }
        if let Some(counts) = name.strip_prefix("lrc:") {
            let counts: Result<Vec<usize>, _> = counts.split('+').map(str::parse).collect();
            let [data, groups, globals] = counts.map_err(|_| unknown())?[..] else {
                return Err(unknown());
            };
            let columns = data.saturating_add(groups).saturating_add(globals);
            if columns > Code::MAX_COLUMNS {
                return Err(LayoutError::Columns(name.to_string(), columns));
            }
            Code::lrc(data, groups, globals).map_err(|e| LayoutError::Code(name.to_string(), e))?;
            return Ok(LayoutSpec::Local { data, groups, globals });
        }
        if let Some(sides) = name.strip_prefix("grid:") {
            let (rows, across) = sides.split_once('x').ok_or_else(unknown)?;
            let rows: usize = rows.parse().map_err(|_| unknown())?;
            let across: usize = across.parse().map_err(|_| unknown())?;
            let columns = rows.saturating_add(1).saturating_mul(across.saturating_add(1));
            if columns > Code::MAX_COLUMNS {
                return Err(LayoutError::Columns(name.to_string(), columns));
            }
            Code::grid(rows, across).map_err(|e| LayoutError::Code(name.to_string(), e))?;
            return Ok(LayoutSpec::Grid(Grid { rows, across }));
        }
        match name {
            "raid0" => Ok(LayoutSpec::Raid0),
            "raid1" => Ok(LayoutSpec::Raid1),
            "raid4" => Ok(LayoutSpec::Raid4),
            "raid5" => Ok(LayoutSpec::Raid5(Placement::LeftSymmetric)),
            "raid6" => Ok(LayoutSpec::Raid6),
            "drnet" => Ok(LayoutSpec::DrNet),
            _ => Err(unknown()),
        }
    }
}

/// Whether a name begins as those of a family that says columns.
fn is_of_family(name: &str, form: &str, such: &str) -> bool {
    let family = form.split_once(':').filter(|_| !such.is_empty()).map(|(family, _)| family);
    family.is_some_and(|family| name.split(':').next() == Some(family))
}

impl fmt::Display for LayoutSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutSpec::Raid0 => f.write_str("raid0"),
            LayoutSpec::Raid1 => f.write_str("raid1"),
            LayoutSpec::Raid4 => f.write_str("raid4"),
            LayoutSpec::Raid5(Placement::LeftSymmetric) => f.write_str("raid5"),
            LayoutSpec::Raid5(placement) => {
                let name = ROTATIONS.iter().find(|(_, p)| p == placement).map_or("", |r| r.0);
                write!(f, "raid5:{name}")
            }
            LayoutSpec::Raid6 => f.write_str("raid6"),
            LayoutSpec::ReedSolomon { data, parity } => write!(f, "rs:{data}+{parity}"),
            LayoutSpec::Local { data, groups, globals } => {
                write!(f, "lrc:{data}+{groups}+{globals}")
            }
            LayoutSpec::Grid(Grid { rows, across }) => write!(f, "grid:{rows}x{across}"),
            LayoutSpec::DrNet => f.write_str("drnet"),
        }
    }
}
