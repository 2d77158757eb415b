-- check_files.lua: for `capl check`: reads every image file of the recipe's loaders once, before hours are spent on
-- them.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local auto = require "auto"

local SHOWN = 3

-- Reads all samples of a source. -> list of {id, message} of those that cannot be read
local function unreadable(source)
  local probe = core.data.loader(source.box, {
    batch = 64, workers = auto.value("workers", "auto"), on_error = "skip", max_bad = 1, cache = "none", dtype = "u8",
  })
  probe:epoch(1)
  while probe:next() do end -- luacheck: ignore 542
  return probe:bad()
end

local function refuse(bad, source)
  local more = {}
  for i = 2, math.min(SHOWN, #bad) do more[#more + 1] = bad[i].message end
  if #bad > SHOWN then more[#more + 1] = ("and %d more"):format(#bad - SHOWN) end
  core.error{
    code = "format", message = ("%d of %d files cannot be read; the first: %s"):format(#bad, source:count(),
    bad[1].message), context = #more > 0 and table.concat(more, "\n") or nil,
    hint = 'repair or remove them, or let the loader take others in their place: on_error = "skip"',
  }
end

--- Looks at the files of all loaders; entries: as run.loaders holds them.
-- out  list of lines to print, one per loader of files
-- errs format: files that cannot be read, where the loader would stop at them
local function check_files(entries)
  local lines = {}
  for _, entry in ipairs(entries) do
    local source = entry.loader.source
    if source.dir then
      local bad = unreadable(source)
      if #bad > 0 and entry.loader.on_error ~= "skip" then refuse(bad, source) end
      lines[#lines + 1] = ("%s files: %d %s, %s"):format(entry.role, source:count(), source.place,
        #bad == 0 and "all can be read" or ("%d cannot be used and are replaced by others"):format(#bad))
    end
  end
  return lines
end

return check_files
