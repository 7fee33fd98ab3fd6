// SPDX-License-Identifier: LGPL-2.1-or-later
//
// hello: lists the devices, then copies a greeting to the memory of one of them and back.
//
//     valac --pkg gpumem-1.0 hello.vala
//     ./hello                          the default device
//     GPUMEM_DEVICE=host ./hello       another device

const size_t SIZE = 4096;
const string GREETING = "Hello from the memory of a device";

void list_devices () {
    foreach (var device in Gpu.Device.list ()) {
        string unusable = "";
        try {
            device.check ();
        } catch (Error e) {
            unusable = @", unusable: $(e.message)";
        }
        print ("%-10s %s%s\n", device.get_id (), device.get_name (), unusable);
    }
}

void say_hello () throws Error {
    var context = new Gpu.Context.default ();
    var buffer = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, SIZE);
    var duplicate = new Gpu.Buffer (context, Gpu.MemoryFlags.NONE, SIZE);

    // The methods of a buffer wait for the result.
    buffer.fill_all (".".data);
    buffer.write (GREETING.data, 8);
    duplicate.copy_from (buffer);
    var bytes = duplicate.read ();

    unowned var text = (string) bytes.get_data ();
    print ("%s says: %.50s\n", context.get_device ().get_id (), text);

    if (bytes.length != SIZE)
        throw new Gpu.Error.FAILED ("read %d bytes", bytes.length);
    for (int i = 0; i < SIZE; i++) {
        var inside = i >= 8 && i < 8 + GREETING.length;
        if (bytes[i] != (inside ? GREETING.data[i - 8] : '.'))
            throw new Gpu.Error.FAILED (@"byte $i is wrong");
    }
}

int main () {
    try {
        list_devices ();
        say_hello ();
        return 0;
    } catch (Error e) {
        printerr ("hello: %s\n", e.message);
        return 1;
    }
}
