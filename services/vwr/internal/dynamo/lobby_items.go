package dynamo

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

// Attributes of a counters item for the lobby of the event's present round.
const (
	attrLobbyOpensAt  = "lobbyOpensAt"  // epoch ms
	attrLobbyClosesAt = "lobbyClosesAt" // epoch ms
	attrStartsAt      = "startsAt"      // epoch ms; an entry's item has it too
	attrLobbySize     = "lobbySize"     // the number of entries; set once it is final
	attrShuffledAt    = "shuffledAt"    // epoch ms; set when each entry has its position
)

// Conditions on the lobby of the round. Positions are issued once the number of entries is final,
// and served once the lobby is shuffled; without a lobby at any time.
const (
	hasLobby   = "attribute_exists(" + attrStartsAt + ")"
	noLobbyOr  = "(attribute_not_exists(" + attrStartsAt + ") OR "
	isSized    = noLobbyOr + "attribute_exists(" + attrLobbySize + "))"
	isShuffled = noLobbyOr + "attribute_exists(" + attrShuffledAt + "))"
)

func toLobby(r *dynamo.Reader) room.Lobby {
	_, sized := r.Item[attrLobbySize]
	_, shuffled := r.Item[attrShuffledAt]
	return room.Lobby{
		OpensAt: r.Number(attrLobbyOpensAt), ClosesAt: r.Number(attrLobbyClosesAt), StartsAt: r.Number(attrStartsAt),
		Sized: sized, Shuffled: shuffled, Entries: r.Number(attrLobbySize), ShuffledAt: r.Number(attrShuffledAt),
	}
}

// The registry of unfinished lobbies is an item of the counters table, as is that of active events.
const (
	lobbiesID      = "#lobbies"
	lobbyNameForm  = "%s#%d" // event, round
	lobbyGroups    = 64
	lobbyPartition = "%s#lobby"      // the shuffles of an event, by round
	groupPartition = "%s#lobby#%02x" // a group of entries
	roundForm      = "%019d"
	groupKeyForm   = "group#" + roundForm
)

// Attributes of the positions table for lobbies. An entry has the partition key groupPartition and
// the sort key `<round>#<request id>`. It has no position, so it is not in the index. Each group
// has an item that counts its entries, and has attrClosed once the group accepts no more. A shuffle
// has the partition key lobbyPartition and the sort key `<round>`.
const (
	attrCount      = "n"
	attrClosed     = "closed"
	attrCommitment = "commitment"
	attrNonce      = "nonce" // hex
	attrStatement  = "statement"
	attrSignature  = "signature"
	attrValueRound = "beaconRound"
	attrValue      = "beaconValue"
	attrValueSign  = "beaconSignature"
	attrSeed       = "seed"
	attrOrder      = "orderHash"
	attrVoided     = "voidedAt"
)

// lobbyTTL is how long after its start a lobby is kept, so that anybody can verify the shuffle.
const lobbyTTL = 90 * 24 * time.Hour

func lobbyExpiry(startsAt int64) types.AttributeValue {
	return dynamo.Number(time.UnixMilli(startsAt).Add(lobbyTTL).Unix())
}

// entryGroup is one of the lobbyGroups parts into which a lobby's entries are divided. A join
// writes only the counter of its own group, so joins of different groups do not conflict.
type entryGroup struct {
	lobby.Key

	number int
}

func groupOf(k lobby.Key, id uuid.UUID) entryGroup { return entryGroup{k, int(id[0]) % lobbyGroups} }

func (g entryGroup) partition() types.AttributeValue {
	return dynamo.String(fmt.Sprintf(groupPartition, g.EventID, g.number))
}

// key returns the key of the item that counts the group's entries and closes the group.
func (g entryGroup) key() dynamo.Item {
	return dynamo.Item{attrEvent: g.partition(), attrRequest: dynamo.String(fmt.Sprintf(groupKeyForm, g.Round))}
}

// prefix returns the common prefix of the sort keys of the group's entries.
func (g entryGroup) prefix() string { return fmt.Sprintf(roundForm+"#", g.Round) }

func (g entryGroup) entryKey(id uuid.UUID) dynamo.Item {
	return dynamo.Item{attrEvent: g.partition(), attrRequest: dynamo.String(g.prefix() + id.String())}
}

// entryID parses the id in the sort key of an entry.
func (g entryGroup) entryID(r *dynamo.Reader) (uuid.UUID, error) {
	sortKey := r.String(attrRequest)
	id, err := uuid.Parse(strings.TrimPrefix(sortKey, g.prefix()))
	if err != nil {
		return id, fmt.Errorf("entry %q of %s: %w", sortKey, g.Key, err)
	}
	return id, r.Err()
}

func fromEntry(e lobby.Entry) dynamo.Item {
	it := groupOf(e.Key, e.RequestID).entryKey(e.RequestID)
	it[attrRound] = dynamo.Number(int64(e.Round))
	it[attrVisitor] = dynamo.String(room.UserVisitor(e.User))
	it[attrCreated] = dynamo.Number(e.JoinedAt)
	it[attrStartsAt] = dynamo.Number(e.StartsAt)
	it[attrTTL] = lobbyExpiry(e.StartsAt)
	return it
}

// toEntry converts a stored item to an entry, with the key and the request id of requested.
func toEntry(it dynamo.Item, requested lobby.Entry) (lobby.Entry, error) {
	r := dynamo.Reader{Item: it}
	e := lobby.Entry{
		Key: requested.Key, RequestID: requested.RequestID, JoinedAt: r.Number(attrCreated), StartsAt: r.Number(attrStartsAt),
		User: strings.TrimPrefix(r.String(attrVisitor), room.UserVisitor("")),
	}
	return e, r.Err()
}

func shuffleKey(k lobby.Key) dynamo.Item {
	return dynamo.Item{attrEvent: dynamo.String(fmt.Sprintf(lobbyPartition, k.EventID)), attrRequest: dynamo.String(fmt.Sprintf(roundForm, k.Round))}
}

func fromOpening(next room.Counters, o *room.LobbyOpening) dynamo.Item {
	it := shuffleKey(lobby.Key{EventID: next.EventID, Round: next.Round})
	it[attrRound] = dynamo.Number(int64(next.Round))
	it[attrCommitment] = dynamo.String(string(o.Commitment))
	it[attrNonce] = dynamo.String(hex.EncodeToString(o.Nonce[:]))
	it[attrTTL] = lobbyExpiry(next.Lobby.StartsAt)
	return it
}

func toShuffle(it dynamo.Item, eventID string) (lobby.Shuffle, error) {
	r := dynamo.Reader{Item: it}
	s := lobby.Shuffle{
		Key:        lobby.Key{EventID: eventID, Round: room.Round(r.Number(attrRound))},
		Commitment: r.String(attrCommitment), Statement: r.String(attrStatement), Signature: r.String(attrSignature),
		Seed: r.String(attrSeed), OrderHash: r.String(attrOrder), VoidedAt: r.Number(attrVoided),
	}
	if n := r.Number(attrValueRound); n > 0 {
		s.Beacon = &beacon.Round{Round: uint64(n), Randomness: r.String(attrValue), Signature: r.String(attrValueSign)}
	}
	nonce, err := hex.DecodeString(r.String(attrNonce))
	if err != nil || len(nonce) != len(s.Nonce) {
		return s, fmt.Errorf("shuffle %s: the nonce is malformed", s.Key)
	}
	copy(s.Nonce[:], nonce)
	return s, r.Err()
}

func beaconRoundValues(r beacon.Round) dynamo.Item {
	return dynamo.Item{
		":beaconRound": &types.AttributeValueMemberN{Value: strconv.FormatUint(r.Round, 10)},
		":beaconValue": dynamo.String(r.Randomness), ":beaconSignature": dynamo.String(r.Signature),
	}
}

func lobbyName(k lobby.Key) string { return fmt.Sprintf(lobbyNameForm, k.EventID, k.Round) }

// parseLobbyName parses a name that lobbyName returned.
func parseLobbyName(name string) (lobby.Key, error) {
	event, round, _ := strings.Cut(name, "#")
	n, err := strconv.ParseInt(round, 10, 64)
	if err != nil {
		return lobby.Key{}, fmt.Errorf("the list of lobbies has %q: %w", name, err)
	}
	return lobby.Key{EventID: event, Round: room.Round(n)}, nil
}
