-- entitle: keeps ticket's answers on who is entitled to the presale. It is no contact of the users.
--
-- KEYS   none of its own
-- ARGV   user and answer (0|1) in turn
-- reply  { head, how many answers were new }
local changed = 0
for i = OWN, #ARGV, 2 do changed = changed + setEntitlement(ARGV[i], ARGV[i + 1]) end
if changed > 0 then dirty() end
return { head(), changed }
