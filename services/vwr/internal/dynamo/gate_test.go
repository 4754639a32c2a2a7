package dynamo_test

import (
	"testing"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/testkit"
)

// gate blocks callers until it is opened.
type gate struct{ reached, open chan struct{} }

func newGate() *gate { return &gate{reached: make(chan struct{}, 1), open: make(chan struct{})} }

func (g *gate) block() {
	select {
	case g.reached <- struct{}{}:
	default:
	}
	<-g.open
}

// awaitBlocked waits until a caller is blocked.
func (g *gate) awaitBlocked(t *testing.T) {
	t.Helper()
	testkit.Receive(t, g.reached, "somebody at the gate")
}

// isInsert reports whether a call stores new records.
func isInsert(in any) bool { _, ok := in.(*awsdynamo.BatchExecuteStatementInput); return ok }

func isUpdate(in any) bool { _, ok := in.(*awsdynamo.UpdateItemInput); return ok }
