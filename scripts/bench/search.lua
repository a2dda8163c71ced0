-- wrk -t 2 -c 8 -d 20 -s scripts/bench/search.lua http://127.0.0.1:8080 -- DOCUMENTS.jsonl
--
-- Searches for the first 1,000 words of each document of a file, one after the other, as POST /v1/search.
local bodies, at = {}, 0

function init(arguments)
  for line in io.lines(arguments[1]) do
    local text = line:match('"text": ?"(.*)"')
    local words = {}
    for word in (text or ""):gsub("\\u%x%x%x%x", " "):gsub("\\.", " "):gmatch("%S+") do
      words[#words + 1] = word
      if #words == 1000 then break end
    end
    if #words == 1000 then bodies[#bodies + 1] = '{"text":"' .. table.concat(words, " ") .. '"}' end
  end
end

function request()
  at = at % #bodies + 1
  return wrk.format("POST", "/v1/search", { ["content-type"] = "application/json" }, bodies[at])
end
