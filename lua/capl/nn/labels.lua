-- labels.lua: names the running layer for the profiler, and records what each layer puts out.
-- SPDX-License-Identifier: Apache-2.0
local core, observer = ...


local labels = {}

local function restore(former, ...)
  core.label(former)
  return ...
end

-- The outputs of a module, the first of which was shown.
local function shown(seen, module, name, ...)
  seen(module, name, (...))
  return ...
end

-- Full names of the modules below root: table module -> name.
local function names_of(root)
  local names = {}
  if root then
    for name, module in root:named_modules() do names[module] = name == "" and root.__name or name end
  end
  return names
end

local function finish(former, ok, ...)
  observer.watch = former
  if not ok then error((...), 0) end
  return ...
end

--- run(fn, …) with every op labelled by the innermost module's name in root (or its class).
-- seen(module, name, output): called after each module, may be nil
function labels.with(root, run, fn, ...)
  return labels.observe(root, nil, run, fn, ...)
end

function labels.observe(root, seen, run, fn, ...)
  local names, former = names_of(root), observer.watch
  observer.watch = function(module, ...)
    local name = names[module] or module.__name
    if not seen then return restore(core.label(name), module:forward(...)) end
    return restore(core.label(name), shown(seen, module, name, module:forward(...)))
  end
  return finish(former, pcall(run, fn, ...))
end

--- Labels every op from now on, until the function it gives is called.
function labels.begin(root)
  local names, former = names_of(root), observer.watch
  observer.watch = function(module, ...)
    return restore(core.label(names[module] or module.__name), module:forward(...))
  end
  return function()
    observer.watch = former
    core.label()
  end
end

return labels
