package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func ptr[T any](value T) *T { return &value }

// must returns the value, and panics if there is an error.
func must[T any](value T, err error) T {
	must0(err)
	return value
}

func must0(err error) {
	if err != nil {
		panic(err)
	}
}

func check(isSo bool, what string, arguments ...any) {
	if !isSo {
		panic(fmt.Sprintf(what, arguments...))
	}
}

func same(expected, actual any) {
	check(reflect.DeepEqual(expected, actual), "expected %#v, saw %#v", expected, actual)
}

// refused insists on an error of Service Bus with this code.
func refused(code azservicebus.Code, err error) {
	var refusal *azservicebus.Error
	check(errors.As(err, &refusal) && refusal.Code == code, "expected %s, saw %v", code, err)
}

// hubRefused insists on an error of Event Hubs with this code.
func hubRefused(code azeventhubs.ErrorCode, err error) {
	var refusal *azeventhubs.Error
	check(errors.As(err, &refusal) && refusal.Code == code, "expected %s, saw %v", code, err)
}

// httpRefused insists on an answer of the administration API with this status.
func httpRefused(status int, err error) {
	var refusal *azcore.ResponseError
	isSo := errors.As(err, &refusal) && refusal.StatusCode == status
	check(isSo, "expected %d %s, saw %v", status, http.StatusText(status), err)
}

// failed insists on any error of the service; that the wait has ended, or that there is no connection, is none.
func failed(err error) {
	check(err != nil, "nothing was refused")
	check(!errors.Is(err, context.DeadlineExceeded), "the service did not answer: %v", err)
	check(!strings.Contains(err.Error(), "WebSocket dial"), "the service was not reached: %v", err)
}

// until waits for something that happens behind the back of the SDK.
func until(what string, isSo func() bool) {
	deadline := time.Now().Add(patience)
	for !isSo() {
		check(time.Now().Before(deadline), "waited in vain for %s", what)
		time.Sleep(10 * time.Millisecond)
	}
}
