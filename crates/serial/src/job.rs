//! Work that is the same by all mechanisms.

use crate::hot_cold::HotCold;
use crate::in_place::InPlace;
use crate::mechanism::Mechanism;
use crate::shadow::ShadowCopies;
use crate::store::Store;
use crate::tuple::TupleShadowing;
use crate::twin::TwinTuples;

/// Something to do with a database of any mechanism.
pub trait Job {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<S: Store>(self) -> Self::Output;
}

impl Mechanism {
    /// Does a job by this mechanism. The code is compiled for each, so that no choice is left while it runs.
    pub fn run<J: Job>(self, job: J) -> J::Output {
        match self {
            Mechanism::VmFork => job.run::<InPlace>(),
            Mechanism::TupleShadowing => job.run::<TupleShadowing>(),
            Mechanism::TwinTuples => job.run::<TwinTuples>(),
            Mechanism::HotCold => job.run::<HotCold>(),
            Mechanism::ShadowCopies => job.run::<ShadowCopies>(),
        }
    }
}
