/** The drawing of each environment. A new one is a file in scenes/ and a line here. */

import { babyai } from "./scenes/babyai.js";
import { pathfinding } from "./scenes/pathfinding.js";
import { sokoban } from "./scenes/sokoban.js";

export const SCENES = { babyai, pathfinding, sokoban };
