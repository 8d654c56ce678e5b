//! Random writes, snapshots, refreshes and drops against vectors.

use crate::{PAGE, Words, available};
use ankerdb_region::{PageSize, Region, RegionSnapshot};
use proptest::prelude::*;

const PAGES: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u64),
    WriteImage(usize, usize, u64),
    Snapshot(usize),
    Refresh(usize, usize),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..PAGES, any::<u64>()).prop_map(|(page, value)| Step::Write(page, value)),
        2 => (0..8usize, 0..PAGES, any::<u64>()).prop_map(|(image, page, value)| Step::WriteImage(image, page, value)),
        2 => (1..=PAGES).prop_map(Step::Snapshot),
        1 => (0..8usize, 1..=PAGES).prop_map(|(image, pages)| Step::Refresh(image, pages)),
        2 => (0..8usize).prop_map(Step::Drop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn like_vectors(steps in proptest::collection::vec(step(), 1..120)) {
        for technique in available() {
            let region = Region::new(technique, PageSize::Small, PAGES * PAGE).expect("a region");
            let mut live = [0u64; PAGES];
            let mut images: Vec<(RegionSnapshot, Vec<u64>)> = Vec::new();
            for step in &steps {
                let chosen = |image: usize| image % images.len().max(1);
                match *step {
                    Step::Write(page, value) => {
                        region.put(page * PAGE + 16, value);
                        live[page] = value;
                    }
                    Step::WriteImage(image, page, value) => {
                        let chosen = chosen(image);
                        if let Some((image, model)) = images.get_mut(chosen) {
                            let page = page % model.len();
                            image.put(page * PAGE + 16, value);
                            model[page] = value;
                        }
                    }
                    Step::Snapshot(pages) if images.len() < 8 => {
                        let image = region.snapshot(pages * PAGE).expect("a snapshot");
                        images.push((image, live[..pages].to_vec()));
                    }
                    Step::Refresh(image, pages) if !images.is_empty() => {
                        let (old, _) = images.swap_remove(chosen(image));
                        let image = region.refresh(old, pages * PAGE).expect("a snapshot");
                        images.push((image, live[..pages].to_vec()));
                    }
                    Step::Drop(image) if !images.is_empty() => drop(images.swap_remove(chosen(image))),
                    _ => {}
                }
                for (page, value) in live.iter().enumerate() {
                    prop_assert_eq!(region.get(page * PAGE + 16), *value);
                }
                for (image, model) in &images {
                    for (page, value) in model.iter().enumerate() {
                        prop_assert_eq!(image.get(page * PAGE + 16), *value);
                    }
                }
            }
            images.clear();
            if let Some(bytes) = region.file_bytes() {
                prop_assert!(bytes <= PAGES * PAGE, "{} bytes are left", bytes);
            }
        }
    }
}
