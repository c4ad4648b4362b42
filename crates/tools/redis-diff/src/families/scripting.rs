//! Scripts.

use super::{Pattern, exact};

/// The patterns of commands on scripts.
pub(super) const PATTERNS: &[Pattern] = &[
    exact("EVAL <script> 1 <key> <value> <value>"),
    exact("EVAL <script> 1 <key> <int> <float>"),
    exact("EVAL <script> 1 <x:hash> <element> <value>"),
    exact("EVAL <script> 1 <x:zset> <score> <element>"),
    exact("EVAL <script> 1 <x:list> <json> <int>"),
    exact("EVAL <script> 1 <x:set> <bytes> <bytes>"),
    exact("EVAL <script> 1 <key> <float> <int>"),
    exact("EVAL <script> <int> <key> <value>"),
    exact("EVAL_RO <script> 1 <key> <value> <value>"),
    exact("EVALSHA {e0e1f9fabfc9d4800c877a703b823ac0578ff8db|x} 1 <key> <value>"),
    exact("SCRIPT EXISTS {e0e1f9fabfc9d4800c877a703b823ac0578ff8db|x}..."),
    exact("SCRIPT LOAD <script>"),
    exact("SET <key> <value>"),
    exact("DEL <key>"),
    exact("FCALL {nosuch|<text>} 1 <key>"),
    exact("FUNCTION {LIST|STATS X|DELETE nosuch|X}"),
];
