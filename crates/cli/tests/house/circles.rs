//! Circles of a directed graph: its strongly connected components, by Tarjan's algorithm.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::Module;

/// The components of more than one module, with their names.
pub(crate) fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<String>> {
    let mut search = Search::new(imports);
    for module in imports.keys() {
        if !search.index.contains_key(module) {
            search.visit(module);
        }
    }
    search.found
}

struct Search<'a> {
    imports: &'a BTreeMap<Module, BTreeSet<Module>>,
    index: BTreeMap<&'a Module, usize>,
    /// The lowest index that a module leads back to.
    low: BTreeMap<&'a Module, usize>,
    stack: Vec<&'a Module>,
    found: Vec<Vec<String>>,
}

impl<'a> Search<'a> {
    fn new(imports: &'a BTreeMap<Module, BTreeSet<Module>>) -> Self {
        let (index, low) = (BTreeMap::new(), BTreeMap::new());
        Self { imports, index, low, stack: Vec::new(), found: Vec::new() }
    }

    fn visit(&mut self, module: &'a Module) {
        let index = self.index.len();
        self.index.insert(module, index);
        self.low.insert(module, index);
        self.stack.push(module);
        for target in &self.imports[module] {
            let seen = self.index.get(target).copied();
            let low = match seen {
                None => {
                    self.visit(target);
                    self.low[target]
                }
                Some(index) if self.stack.contains(&target) => index,
                Some(_) => continue,
            };
            let least = low.min(self.low[module]);
            self.low.insert(module, least);
        }
        if self.low[module] == index {
            let begin = self.stack.iter().position(|other| *other == module).expect("it is there");
            let circle = self.stack.split_off(begin);
            if circle.len() > 1 {
                self.found.push(circle.iter().map(|module| module.join("/")).collect());
            }
        }
    }
}
